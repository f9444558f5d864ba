"""A connection between srun and a node's step daemon: both prove that they know the job's key, then send frames.

A frame is a letter, a length and content. No frame is trusted before the proof: each side answers the other's nonce
with an HMAC-SHA256 under the key in the job's Secret (RFC 2104). The frames are not encrypted, like other traffic
between pods in most clusters. The module imports little, because a daemon starts with every job.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
import threading
from contextlib import suppress

PORT = 6818  # slurmd's; each pod has an address of its own
_HEAD = struct.Struct("!cI")
_NONCE_BYTES, _PROOF_BYTES = 32, 32
MOST_BYTES = 1 << 24
_PROVE_S = 10.0

# From srun.
RUN, STDIN, SIGNAL, WINDOW = b"R", b"I", b"G", b"W"
STAY = b"S"  # keep this connection as long as the daemon is there
HOLD, FINISH = b"H", b"F"  # keep the allocation while this connection lasts; end the allocation
# From the daemon.
STDOUT, STDERR, ENDED, DONE, FAILED = b"O", b"X", b"T", b"D", b"E"


class Broken(OSError):
    """The other side closed the connection, does not know the key, or sent something else than this protocol."""


class Channel:
    """A connection whose both ends know the key. `send` may be called by several threads."""

    def __init__(self, connection: socket.socket, key: str, *, server: bool) -> None:
        """Raises Broken; TimeoutError if the other side accepts the connection and does not answer, as on a machine
        that stalls."""
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
        """Raises OSError."""
        with self._sending:
            self._socket.sendall(_HEAD.pack(kind, len(content)) + content)

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next frame. Raises Broken at the end."""
        kind, length = _HEAD.unpack(self._exactly(_HEAD.size))
        if length > MOST_BYTES:
            raise Broken("a frame is too long")
        return kind, self._exactly(length)

    def close(self) -> None:
        """Close the connection. A thread that waits for the next frame gets `Broken`."""
        with suppress(OSError):  # the channel is closed already
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
    """Return the proof of one side. The two sides differ, so that a proof cannot be sent back to its sender."""
    return hmac.digest(key.encode(), (b"server" if server else b"client") + nonce, "sha256")
