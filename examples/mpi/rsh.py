"""How mpirun starts its daemons on other pods, without ssh: `rsh.py serve` there, `rsh.py HOST COMMAND…` here.

mpirun calls its remote shell agent (`plm_rsh_agent`) with a host and a command. Here that goes over a socket to the
server in that pod, which runs the command and gives back its exit code. Both sides prove that they know the token (of
a Secret) with a digest over a fresh number, so that nobody else can run anything; the token itself is never sent.
`rsh.py HOST --end` lets the server go.
"""

import hashlib
import hmac
import json
import os
import secrets
import socket
import subprocess
import sys
import time

PORT = 7022
PATIENCE_S = 300
TOKEN = os.environ["RSH_TOKEN"].encode()


def digest(*parts: str) -> str:
    return hmac.new(TOKEN, "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def serve() -> None:
    """Until told to end. Commands run in the order in which they come, side by side."""
    running: list[subprocess.Popen] = []
    with socket.create_server((os.environ["POD_IP"], PORT)) as listener:
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as line:
                nonce = secrets.token_hex(16)
                print(nonce, file=line, flush=True)
                asked = json.loads(line.readline())
                if not hmac.compare_digest(asked["digest"], digest(nonce, *asked["command"])):
                    continue
                if asked["command"] == ["--end"]:
                    break
                # As ssh does: the words are put together, and a shell of this pod takes them apart.
                running.append(subprocess.Popen(["sh", "-c", " ".join(asked["command"])]))
                print(0, file=line, flush=True)
    for process in running:
        process.wait(timeout=PATIENCE_S)


def reach(host: str) -> socket.socket:
    """The other pod is starting too."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((host, PORT))
        except OSError as error:
            if time.monotonic() > deadline_s:
                raise SystemExit(f"{host} never came: {error}") from None
            time.sleep(0.1)


def call(host: str, command: list[str]) -> int:
    host = host if "." in host else f"{host}.{os.environ['SERVICE']}"  # Open MPI cuts names at the first dot
    connection = reach(host)
    with connection, connection.makefile("rw") as line:
        nonce = line.readline().strip()
        print(json.dumps({"command": command, "digest": digest(nonce, *command)}), file=line, flush=True)
        return int(line.readline() or 0)


if sys.argv[1] == "serve":
    serve()
else:
    sys.exit(call(sys.argv[1], sys.argv[2:]))
