"""The protocol between driver and executors: one JSON object per line over TCP.

An executor begins with a `Hello` that contains the application's token; the driver closes connections without it. Then
the driver sends `Work` and the executor replies with `Counted`, until the driver sends `Goodbye`.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

import msgspec

LINE_LIMIT_BYTES = 64 << 20


class Hello(msgspec.Struct, tag=True, frozen=True):
    token: str
    name: str


class Work(msgspec.Struct, tag=True, frozen=True):
    part: int
    text: str


class Counted(msgspec.Struct, tag=True, frozen=True):
    part: int
    counts: dict[str, int]


class Goodbye(msgspec.Struct, tag=True, frozen=True):
    pass


Message: TypeAlias = Hello | Work | Counted | Goodbye

_decoder = msgspec.json.Decoder(Message)


class ConnectionLost(Exception):
    """The connection ended, or the peer sent a message that is not in the protocol."""


async def send(writer: asyncio.StreamWriter, message: Message) -> None:
    try:
        writer.write(msgspec.json.encode(message) + b"\n")
        await writer.drain()
    except ConnectionError as error:
        raise ConnectionLost(str(error)) from error


async def receive(reader: asyncio.StreamReader) -> Message:
    try:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionLost("the connection was closed")
        message: Message = _decoder.decode(line)
    except (ConnectionError, ValueError, msgspec.DecodeError) as error:
        raise ConnectionLost(str(error)) from error
    return message
