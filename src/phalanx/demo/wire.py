"""What driver and executors say to each other: one JSON object a line, over TCP.

An executor opens with a `Hello` that carries the application's token; the driver hangs up on anybody without it. Then
`Work` goes one way and `Counted` the other, until the driver says `Goodbye`.
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
    """The other side is gone, or says what is not in the protocol."""


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
