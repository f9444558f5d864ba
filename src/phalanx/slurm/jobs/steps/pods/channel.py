"""A connection between srun and a step daemon. Both sides first prove that they know the job's key, and then send
frames.

A frame consists of a letter, a length and a content. Neither side reads frames before the proof. For the proof, each
side sends a nonce, and answers the nonce of the other side with its HMAC-SHA256 under the key in the job's Secret (RFC
2104). The frames are not encrypted, like other traffic between pods in most clusters. The module has few imports,
because each job starts a daemon that imports it.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
import threading
from contextlib import suppress

PORT = 6818  # the port of Slurm's slurmd; daemons of several pods can use it, because each pod has its own address
_HEAD = struct.Struct("!cI")
_NONCE_BYTES, _PROOF_BYTES = 32, 32
MOST_BYTES = 1 << 24
_PROVE_S = 10.0

# Letters of frames that srun sends.
RUN, STDIN, SIGNAL, WINDOW = b"R", b"I", b"G", b"W"
STAY = b"S"  # keep this connection open as long as the daemon runs
HOLD, FINISH = b"H", b"F"  # HOLD: keep the allocation while this connection is open; FINISH: end the allocation
# Letters of frames that the daemon sends.
STDOUT, STDERR, ENDED, DONE, FAILED = b"O", b"X", b"T", b"D", b"E"


class Broken(OSError):
    """The error if the other side closes the connection, does not know the key, or does not follow the protocol."""


class Channel:
    """A connection whose two sides have proved that they know the key. Several threads may call `send`."""

    def __init__(self, connection: socket.socket, key: str, *, server: bool) -> None:
        """Exchange the proofs with the other side. `server`: True if this side is the daemon. Raises Broken. Raises
        TimeoutError if the other side accepts the connection but does not answer, for example because its machine is
        overloaded."""
        self._socket, self._sending = connection, threading.Lock()
        connection.settimeout(_PROVE_S)
        own = os.urandom(_NONCE_BYTES)
        try:
            connection.sendall(own)
            theirs = self._exactly(_NONCE_BYTES)
            connection.sendall(_proof(key, server, theirs))
            if not hmac.compare_digest(self._exactly(_PROOF_BYTES), _proof(key, not server, own)):
                raise Broken("the other side does not know the key of this job")
        except (Broken, TimeoutError):
            connection.close()
            raise
        except OSError as error:
            connection.close()
            raise Broken(str(error)) from error
        connection.settimeout(None)

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """Send a frame. Raises OSError."""
        with self._sending:
            self._socket.sendall(_HEAD.pack(kind, len(content)) + content)

    def receive(self) -> tuple[bytes, bytes]:
        """Return the letter and the content of the next frame. Raises Broken when the connection ends."""
        kind, length = _HEAD.unpack(self._exactly(_HEAD.size))
        if length > MOST_BYTES:
            raise Broken("a frame is too long")
        return kind, self._exactly(length)

    def close(self) -> None:
        """Close the connection. A thread that waits for the next frame gets `Broken`."""
        with suppress(OSError):  # the other side may have closed the connection already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(min(count, 1 << 16))
            if not part:
                raise Broken("the connection was closed")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _proof(key: str, server: bool, nonce: bytes) -> bytes:
    """Return the proof of one side. `server`: True for the daemon's proof. The proofs of the two sides differ for the
    same nonce, so an attacker cannot use the proof of one side for the other side."""
    return hmac.digest(key.encode(), (b"server" if server else b"client") + nonce, "sha256")
