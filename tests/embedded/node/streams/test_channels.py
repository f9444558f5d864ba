"""Channels over a WebSocket: how messages are read and written in each protocol."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from aiohttp import WSMessage, WSMsgType

from phalanx.embedded.node.streams.channels import ERROR, STDIN, STDOUT, Channels

SUCCESS, FAILURE = {"status": "Success"}, {"status": "Failure", "message": "exit 3"}


class Socket:
    """A WebSocket on which the client has sent these messages."""

    def __init__(self, protocol: str, *messages: tuple[WSMsgType, Any]) -> None:
        self.ws_protocol, self.sent, self.closed = protocol, list[bytes | str](), False
        self._messages = [WSMessage(kind, data, None) for kind, data in messages]

    async def prepare(self, request: object) -> None:
        pass

    async def send_str(self, text: str) -> None:
        self.sent.append(text)

    async def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)

    async def close(self) -> None:
        self.closed = True

    async def __aiter__(self) -> Any:
        for message in self._messages:
            yield message


async def opened(protocol: str, *messages: tuple[WSMsgType, Any]) -> tuple[Channels, Socket]:
    channels, socket = Channels(), Socket(protocol, *messages)
    channels._socket = socket
    await channels.open(None)
    return channels, socket


async def test_data_goes_behind_the_number_of_its_channel() -> None:
    channels, socket = await opened("v5.channel.k8s.io")
    await channels.send(STDOUT, b"a\xff")
    assert socket.sent == [b"\x01a\xff"]
    channels, socket = await opened("base64.channel.k8s.io")
    await channels.send(STDOUT, b"a\xff")
    assert socket.sent == ["1" + base64.b64encode(b"a\xff").decode()]


@pytest.mark.parametrize(
    ("protocol", "status", "sent"),
    [
        ("v5.channel.k8s.io", SUCCESS, {"metadata": {}, **SUCCESS}),
        ("v4.channel.k8s.io", FAILURE, {"metadata": {}, **FAILURE}),
        ("channel.k8s.io", FAILURE, "exit 3"),
        ("channel.k8s.io", SUCCESS, None),
    ],
)
async def test_the_end_is_a_status_or_before_v4_its_text(protocol: str, status: Any, sent: Any) -> None:
    channels, socket = await opened(protocol)
    await channels.finish(status)
    assert socket.closed
    if sent is None:
        assert socket.sent == []
        return
    [message] = socket.sent
    assert message[0] == ERROR
    assert (json.loads(message[1:]) if isinstance(sent, dict) else message[1:].decode()) == sent


@pytest.mark.parametrize(
    ("protocol", "messages", "read"),
    [
        ("v4.channel.k8s.io", [(WSMsgType.BINARY, b"\x00ls\n"), (WSMsgType.BINARY, b"\x00")],
         [(STDIN, b"ls\n"), (STDIN, b"")]),
        ("base64.channel.k8s.io", [(WSMsgType.TEXT, "0YQ=="), (WSMsgType.TEXT, "4e30=")], [(STDIN, b"a"), (4, b"{}")]),
        # the first wrong message ends it
        ("base64.channel.k8s.io", [(WSMsgType.TEXT, "0Y"), (WSMsgType.TEXT, "0YQ==")], []),
        ("base64.channel.k8s.io", [(WSMsgType.TEXT, "²YQ==")], []),
        ("base64.channel.k8s.io", [(WSMsgType.BINARY, b"\x00a")], []),
        ("v4.channel.k8s.io", [(WSMsgType.BINARY, b"\x00a"), (WSMsgType.TEXT, "0YQ=="), (WSMsgType.BINARY, b"\x00b")],
         [(STDIN, b"a")]),
        ("v4.channel.k8s.io", [(WSMsgType.BINARY, b"")], []),
    ],
)  # fmt: skip
async def test_messages_of_the_client(protocol: str, messages: list[Any], read: list[Any]) -> None:
    channels, _ = await opened(protocol, *messages)
    assert [one async for one in channels.messages()] == read
