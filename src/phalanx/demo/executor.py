"""An executor of the demo (`python -m phalanx.demo.executor`), and the protocol between executor and driver.

The first part is the protocol: TCP with one JSON object in each line. An executor begins with a `Hello` that contains
the token of the application; the driver closes connections without this token. Then the driver sends `Work` and the
executor answers with `Counted`, until the driver sends `Goodbye`.

The second part is the executor. It receives text from its driver and returns word counts. It reads DRIVER_ADDRESS
(HOST:PORT), DRIVER_TOKEN and POD_NAME from the environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TypeAlias

import msgspec

from phalanx.demo.words import count

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
    """The error if the connection ends, or if the peer sends a message that the protocol does not allow."""


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


# --- executor ---------------------------------------------------------------------------------------------------------


async def work(host: str, port: int, token: str, name: str) -> int:
    """Count the words of each part that the driver sends, until its `Goodbye`. Return the number of parts."""
    reader, writer = await asyncio.open_connection(host, port, limit=LINE_LIMIT_BYTES)
    done = 0
    try:
        await send(writer, Hello(token, name))
        while True:
            match await receive(reader):
                case Work(part, text):
                    await send(writer, Counted(part, dict(count(text))))
                    done += 1
                case Goodbye():
                    return done
                case unexpected:
                    raise ConnectionLost(f"the driver sent {type(unexpected).__name__}, which a driver must not send")
    finally:
        writer.close()


def main() -> int:
    host, _, port = os.environ["DRIVER_ADDRESS"].rpartition(":")
    name = os.environ.get("POD_NAME", "executor")
    try:
        done = asyncio.run(work(host, int(port), os.environ["DRIVER_TOKEN"], name))
    except (ConnectionLost, OSError) as error:
        print(f"{name}: lost the driver at {host}:{port}: {error}", file=sys.stderr)
        return 1
    print(f"{name}: counted {done} parts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
