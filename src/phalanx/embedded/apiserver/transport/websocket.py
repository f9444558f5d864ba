"""WebSocket (RFC 6455), as far as a watch needs it: the server sends one text frame for each event, and responds to
pings.

Some clients (fabric8, which Spark and many operators use) first request a watch over WebSocket. If the response is an
ordinary stream, these clients wait for the end of the stream, which never comes.

The module also contains the client's side, for connections of this server to a node: binary messages that carry another
protocol (`wrapped`, `Unwrapper`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_NO_MASK = bytes(4)  # Phalanx's own client uses a mask of zeros, because there is no proxy in its connections
_FINAL, _MASKED = 0x80, 0x80
_SHORT, _TWO_BYTES, _EIGHT_BYTES = 125, 126, 127
_CONTROL_MOST_BYTES = 125  # the maximum size of a ping or close (RFC 6455, section 5.5)
_INPUT_MOST_BYTES = 64 * 1024  # a watch needs no input, so a client that sends more is disconnected
NORMAL_CLOSURE = 1000


class WebSocketBroken(Exception):
    """Raised if the client violates the WebSocket protocol, or sends too much."""


def head(key: bytes) -> bytes:
    """Return the response to the request that contained this Sec-WebSocket-Key."""
    accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: "
        + accept
        + b"\r\n\r\n"
    )


def text(lines: bytes) -> bytes:
    """Return one text frame for each line."""
    return b"".join(_frame(_TEXT, line) for line in lines.splitlines())


def close(code: int = NORMAL_CLOSURE) -> bytes:
    return _frame(_CLOSE, code.to_bytes(2))


def wrapped(payload: bytes) -> bytes:
    """Return a binary message in the form that a client sends."""
    return _frame(_BINARY, payload, _MASKED, _NO_MASK)


def _frame(opcode: int, payload: bytes, masked: int = 0, mask: bytes = b"") -> bytes:
    """Return a frame. It is unmasked, like frames of a server (section 5.2), unless `masked` and `mask` are given."""
    size, first = len(payload), bytes((_FINAL | opcode,))
    if size <= _SHORT:
        return first + bytes((masked | size,)) + mask + payload
    if size < 2**16:
        return first + bytes((masked | _TWO_BYTES,)) + size.to_bytes(2) + mask + payload
    return first + bytes((masked | _EIGHT_BYTES,)) + size.to_bytes(8) + mask + payload


class Unwrapper:
    """A reader of the binary messages that a server sends. `over`: True if the server has sent a close frame."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.over = False

    def hear(self, data: bytes) -> bytes:
        """Add received bytes. Return the payload of all messages that are now complete."""
        self._rest += data
        found = bytearray()
        while len(self._rest) >= 2 and not self.over:
            size, at = self._rest[1] & ~_MASKED, 2
            if size > _SHORT:
                width = 2 if size == _TWO_BYTES else 8
                size, at = int.from_bytes(self._rest[2 : 2 + width]), 2 + width
            if len(self._rest) < at + size:
                break
            opcode = self._rest[0] & 0x0F
            if opcode in (_CONTINUED, _BINARY):
                found += self._rest[at : at + size]
            self.over = opcode == _CLOSE
            del self._rest[: at + size]
        return bytes(found)


class Listener:
    """A reader of the frames that the client of a watch sends. `hear` yields the bytes to send in response, and None
    when the client closes the connection."""

    def __init__(self) -> None:
        self._rest = b""

    def hear(self, data: bytes) -> Iterator[bytes | None]:
        """Add received bytes, and yield the responses to complete frames. Raises WebSocketBroken."""
        self._rest += data
        while (frame := self._next()) is not None:
            opcode, payload = frame
            if opcode == _CLOSE:
                yield _frame(_CLOSE, payload[:2])
                yield None
            elif opcode == _PING:
                yield _frame(_PONG, payload)

    def _next(self) -> tuple[int, bytes] | None:
        """Return the payload of the next complete frame, unmasked, with its opcode; None if there is none."""
        data = self._rest
        if len(data) > _INPUT_MOST_BYTES:
            raise WebSocketBroken("too much")
        if len(data) < 2:
            return None
        if not data[1] & _MASKED:
            raise WebSocketBroken("a client must mask its frames")  # section 5.1
        size, at = data[1] & ~_MASKED, 2
        if size > _SHORT:
            width = 2 if size == _TWO_BYTES else 8
            size, at = int.from_bytes(data[2 : 2 + width]), 2 + width
        end = at + 4 + size
        if len(data) < end:
            return None
        self._rest, opcode = data[end:], data[0] & 0x0F
        if opcode >= _CLOSE and size > _CONTROL_MOST_BYTES:
            raise WebSocketBroken("a control frame is too long")
        mask = data[at : at + 4]
        return opcode, bytes(sign ^ mask[place % 4] for place, sign in enumerate(data[at + 4 : end]))
