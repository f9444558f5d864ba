"""Reading the log of one attempt: lines `TIME stdout|stderr F|P TEXT`, as `kubectl logs` asks for them."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_LOOK_S = 0.1  # between two looks for more, while following
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """PodLogOptions. `since`: only lines stamped at or after this (an RFC 3339 prefix compares as text)."""

    follow: bool = False
    tail_lines: int | None = None
    since: str = ""
    timestamps: bool = False
    limit_bytes: int | None = None


def since_text(moment: dt.datetime) -> str:
    """A time as the log stamps it, to compare with."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


async def read(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The text, piece by piece; with `follow`, until `ended` says that nothing more can come."""
    left = options.limit_bytes
    async for piece in _pieces(path, options, ended):
        if left is not None:
            piece, left = piece[:left], left - len(piece)
        if piece:
            yield piece
        if left is not None and left <= 0:
            return


async def _pieces(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        file.seek(0 if options.tail_lines is None else _tail_offset(path, options.tail_lines))
        rest = b""
        while True:
            over = ended()  # asked before reading: what was written until then is read below
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield b"".join(_render(lines, options))
                await asyncio.sleep(0)
            if over or not options.follow:
                return
            await asyncio.sleep(_LOOK_S)


def _render(lines: list[bytes], options: LogOptions) -> Iterator[bytes]:
    since = options.since.encode()
    for line in lines:
        stamp, _, rest = line.partition(b" ")
        _, tag, text = [*rest.split(b" ", 2), b"", b""][:3]
        if stamp < since:
            continue
        end = b"" if tag == b"P" else b"\n"
        yield (stamp + b" " + text if options.timestamps else text) + end


def _tail_offset(path: Path, lines: int) -> int:
    """Where the last `lines` lines begin; read backwards, so that a large log costs no more than its tail."""
    with path.open("rb") as file:
        position = file.seek(0, 2)
        if lines == 0:
            return position
        found = 0
        while position > 0:
            step = min(_CHUNK, position)
            position -= step
            file.seek(position)
            block = file.read(step)
            count = block.count(b"\n")
            if found + count > lines:
                return position + _nth_from_end(block, lines - found)
            found += count
    return 0


def _nth_from_end(block: bytes, skip: int) -> int:
    """The offset behind the newline before which `skip` others (from the end) come."""
    at = len(block)
    for _ in range(skip + 1):
        at = block.rfind(b"\n", 0, at)
    return at + 1


def last_lines(path: Path, lines: int, most_bytes: int) -> str:
    """The end of the log, for a termination message."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(_tail_offset(path, lines))
        text = b"".join(_render(file.read().split(b"\n")[:-1], LogOptions()))
    return text[-most_bytes:].decode(errors="replace")
