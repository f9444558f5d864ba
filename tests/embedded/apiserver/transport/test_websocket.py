"""A watch by WebSocket, as fabric8 clients (Spark's) ask for it first."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import pytest

from phalanx.embedded.apiserver.transport.websocket import Listener, Unwrapper, WebSocketBroken, head, text, wrapped
from tests.embedded.apiserver.process import ServerProcess

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="  # RFC 6455, section 1.3, and the answer to it
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
MASK = bytes((1, 2, 3, 4))


def said(opcode: int, payload: bytes = b"") -> bytes:
    """As a client sends it."""
    size = bytes((0x80 | len(payload),)) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2)
    return bytes((0x80 | opcode,)) + size + MASK + bytes(sign ^ MASK[at % 4] for at, sign in enumerate(payload))


def test_the_handshake_of_the_standard() -> None:
    assert b"sec-websocket-accept: " + ACCEPT + b"\r\n" in head(KEY)


SIZES = [(3, b"\x81\x03"), (200, b"\x81\x7e\x00\xc8"), (70_000, b"\x81\x7f" + (70_000).to_bytes(8))]


@pytest.mark.parametrize(("size", "start"), SIZES)
def test_each_line_is_a_frame(size: int, start: bytes) -> None:
    line = b"x" * size
    assert text(line + b"\n" + line + b"\n") == 2 * (start + line)


def test_pings_are_answered_in_pieces_or_together() -> None:
    listener, both = Listener(), said(0x9, b"a") + said(0x1, b"hello") + said(0x9, b"b")
    assert [answer for at in range(len(both)) for answer in listener.hear(both[at : at + 1])] == [
        b"\x8a\x01a",
        b"\x8a\x01b",
    ]


def test_a_goodbye_is_returned() -> None:
    assert list(Listener().hear(said(0x8, (1000).to_bytes(2) + b"bye"))) == [b"\x88\x02\x03\xe8", None]


@pytest.mark.parametrize("bad", [b"\x81\x01x", said(0x9, b"x" * 200), b"\x81\xff" + bytes(8) + b"x" * 70_000])
def test_what_no_client_says_ends_it(bad: bytes) -> None:
    with pytest.raises(WebSocketBroken):
        list(Listener().hear(bad))


def opened(server: ServerProcess, path: str) -> tuple[ssl.SSLSocket, BinaryIO]:
    url = urlsplit(server.url)
    raw = socket.create_connection((url.hostname or "", url.port or 0), timeout=240)
    talk = ssl.create_default_context(cafile=str(server.ca)).wrap_socket(raw, server_hostname=url.hostname)
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {server.token}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        f"Sec-WebSocket-Key: {KEY.decode()}",
        "Sec-WebSocket-Version: 13",
    ]
    talk.sendall("\r\n".join([*lines, "", ""]).encode())
    return talk, talk.makefile("rb")


def frame(source: BinaryIO) -> tuple[int, bytes]:
    opcode, size = source.read(2)
    if size >= 126:
        size = int.from_bytes(source.read(2 if size == 126 else 8))
    return opcode & 0x0F, source.read(size)


def answer(source: BinaryIO) -> bytes:
    found = b""
    while not found.endswith(b"\r\n\r\n"):
        found += source.read(1)
    return found


@pytest.mark.slow
def test_a_watch_by_websocket(api_server: ServerProcess) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    talk, source = opened(api_server, f"{maps}?watch=true&fieldSelector=metadata.name%3Dspoken")
    begun = answer(source)
    assert begun.startswith(b"HTTP/1.1 101 ")
    assert ACCEPT in begun
    api_server.ask("POST", maps, {"metadata": {"name": "spoken"}, "data": {"text": "y" * 500}})
    opcode, payload = frame(source)
    event: Any = json.loads(payload)
    assert (opcode, event["type"], event["object"]["metadata"]["name"]) == (1, "ADDED", "spoken")
    talk.sendall(said(0x9, b"there?"))
    assert frame(source) == (0xA, b"there?")
    talk.sendall(said(0x8, (1000).to_bytes(2)))
    assert frame(source) == (0x8, (1000).to_bytes(2))
    assert source.read() == b""
    talk.close()
    api_server.ask("DELETE", f"{maps}/spoken")


def test_what_is_no_stream_is_answered_as_ever(api_server: ServerProcess) -> None:
    talk, source = opened(api_server, "/api/v1/namespaces/default")
    assert answer(source).startswith(b"HTTP/1.1 200 ")
    assert json.loads(source.read())["kind"] == "Namespace"
    talk.close()


@pytest.mark.parametrize("size", [0, 125, 126, 70_000])
def test_what_a_client_of_a_node_wraps_arrives_and_what_it_is_sent_is_unwrapped_in_any_pieces(size: int) -> None:
    payload = b"x" * size
    frame = wrapped(payload)
    assert frame[0] == 0x82
    assert frame[1] & 0x80
    assert frame.endswith(bytes(4) + payload)
    sent = ((b"\x82" + text(payload + b"\n")[1:]) * 2 if size else b"\x82\x00") + b"\x89\x00\x88\x02\x03\xe8"
    messages = Unwrapper()
    assert b"".join(messages.hear(sent[at : at + 3]) for at in range(0, len(sent), 3)) == payload * (2 if size else 1)
    assert messages.over
