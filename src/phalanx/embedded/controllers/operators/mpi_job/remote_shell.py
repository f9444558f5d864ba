"""Start mpirun's daemons in other pods that have no sshd. The workers run this program with the argument `serve`, and
the launcher runs it with the arguments `HOST COMMAND…`.

This module is a separate program, which is in the job's ConfigMap. mpirun calls it as its remote shell
(`plm_rsh_agent`) with a host and a command. The server in the pod of this host runs the command like a shell, and the
call returns the exit code. The server sends a random number. The client answers with the command, and with a digest of
the number and the command. The digest is computed with the token of the job's Secret, so it proves that the client
knows the token. The token itself is never sent. So only programs that have the token can run commands."""

import hashlib
import hmac
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time

PORT = 7022
PATIENCE_S = 300
MOST_BYTES = 2**20


def digest(*parts: str) -> str:
    """Return a digest of `parts` that is keyed with the job's token. The digest proves that its sender has the
    token."""
    return hmac.new(os.environ["MPI_RSH_TOKEN"].encode(), "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def serve() -> None:
    """Run the requested commands until the pod ends."""
    with socket.create_server((os.environ["MPI_RSH_ADDRESS"], PORT)) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection: socket.socket) -> None:
    """Run one command if the client has the job's token, and send its exit code."""
    with connection, connection.makefile("rw") as line:
        connection.settimeout(PATIENCE_S)
        nonce = secrets.token_hex(16)
        print(nonce, file=line, flush=True)
        try:
            asked = json.loads(line.readline(MOST_BYTES))
            command, proof = [str(word) for word in asked["command"]], str(asked["digest"])
        except (ValueError, LookupError, TypeError, OSError):
            return
        if not hmac.compare_digest(proof, digest(nonce, *command)):
            return
        print(run(command), file=line, flush=True)


def run(command: list[str]) -> int:
    """Run a command, and return its exit code. As with ssh, the words of the command are joined by spaces, and a shell
    in this pod splits them again."""
    return subprocess.run(["sh", "-c", " ".join(command)], check=False).returncode


def is_here(host: str) -> bool:
    """Return True if `host` is the name of this pod. mpirun itself cannot determine this, because all pods share the
    loopback interface."""
    try:
        return socket.gethostbyname(host) == os.environ["MPI_RSH_ADDRESS"]
    except OSError:  # the name of a pod that is starting cannot be resolved yet
        return False


def reach(host: str) -> socket.socket | None:
    """Return a connection to the other pod, which may still be starting; None if the host is this pod. (The name of a
    starting pod may not resolve yet.)"""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        if is_here(host):  # mpirun also calls this program for the launcher itself, if ranks run in the launcher
            return None
        try:
            return socket.create_connection((host, PORT))
        except OSError as error:
            if time.monotonic() > deadline_s:
                raise SystemExit(f"{host} does not answer on port {PORT}: {error}") from None
            time.sleep(0.1)  # poll: a program in this pod cannot be notified when the other pod listens


def call(host: str, command: list[str]) -> int:
    """Run a command in a pod, and return its exit code. If the connection broke, the exit code is 255, as with ssh."""
    connection = reach(host)
    if connection is None:
        return run(command)
    with connection, connection.makefile("rw") as line:
        nonce = line.readline().strip()
        print(json.dumps({"command": command, "digest": digest(nonce, *command)}), file=line, flush=True)
        return int(line.readline() or 255)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    words = [word for word in sys.argv[1:] if word != "-x"]  # Open MPI adds the option -x for ssh
    sys.exit(call(words[0], words[1:]))
