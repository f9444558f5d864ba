"""The program that `pods/exec` starts in a pod. It copies bytes from its standard input to the pod's step daemon, and
from the daemon to its standard output, until one side ends.

python -m phalanx.slurm.jobs.steps.pods.tunnel.pipe
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from contextlib import suppress

from phalanx.slurm.jobs.steps.pods.channel import PORT

_AGAIN_S, _START_S, _AT_A_TIME = 0.05, 60.0, 1 << 16


def main() -> int:
    """Connect to the daemon and copy bytes in both directions. Return the exit code: 1 if no daemon listens within
    `_START_S` seconds."""
    address, until_s = (os.environ.get("PHALANX_POD_IP") or "127.0.0.1", PORT), time.monotonic() + _START_S
    while True:
        try:
            connection = socket.create_connection(address)
            break
        except OSError as error:
            if time.monotonic() > until_s:
                sys.stderr.write(f"the step daemon does not listen: {error}\n")
                return 1
            time.sleep(_AGAIN_S)  # the daemon may still be starting, and does not report when it listens
    with connection:
        threading.Thread(target=_send, args=(connection,), daemon=True).start()
        with suppress(OSError):
            while part := connection.recv(_AT_A_TIME):
                sys.stdout.buffer.write(part)
                sys.stdout.buffer.flush()
    return 0


def _send(connection: socket.socket) -> None:
    """Send standard input to the daemon. The input ends when srun has ended and does not read any longer, so close the
    connection in both directions then."""
    with suppress(OSError):
        while part := os.read(0, _AT_A_TIME):
            connection.sendall(part)
        connection.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a normal exit would wait for the thread that reads standard input
