"""Read the log of one attempt, in lines `TIME stdout|stderr F|P TEXT`, with the options of `kubectl logs`.

A long log consists of several files, which the shim writes: the newest file, and older files with numbers. The oldest
file has the highest number. This module reads these files as one log. A reader keeps a file open, because the shim may
rename the file in the meantime.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from phalanx.embedded.node.container.shim.streams import LOG_FILES

_LOOK_S = 0.1
_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of a request for a log (PodLogOptions). `since`: return only lines with this time or a later time.
    The times are compared as strings, which is correct for RFC 3339 times and for their beginnings. `look_s`: the pause
    between two reads while following."""

    follow: bool = False
    tail_lines: int | None = None
    since: str = ""
    timestamps: bool = False
    limit_bytes: int | None = None
    look_s: float = _LOOK_S


def since_text(moment: dt.datetime) -> str:
    """Return the time in the format of the log, so that it can be compared with the times of lines."""
    with suppress(OverflowError):  # in UTC, a time in the year 1 or 9999 may be outside of the range of `datetime`
        moment = moment.astimezone(dt.UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "000Z"


async def read(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the text of the log in pieces. With `follow`, continue until `ended` returns True. After that, no more
    output can arrive."""
    left = options.limit_bytes
    async for piece in _pieces(path, options, ended):
        if left is not None:
            piece, left = piece[:left], left - len(piece)
        if piece:
            yield piece
        if left is not None and left <= 0:
            return


async def _pieces(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    file = _begin(path, options.tail_lines)
    try:
        while True:
            over = ended()  # checked first, so that no output after the last read is missed
            later = _after(path, file)  # also checked before reading: a file with a successor does not grow any more
            rest = b""  # the incomplete line at the end of the file, if the shim is still writing it
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield b"".join(_render(lines, options))
                await asyncio.sleep(0)
            if later is not None:
                file.close()
                file = later
            elif over or not options.follow:
                return
            else:
                file.seek(-len(rest), 1)
                await asyncio.sleep(options.look_s)
    finally:
        file.close()


def _files(path: Path) -> list[BinaryIO]:
    """Return the open files of the log, the oldest first. Raises FileNotFoundError if there is none."""
    while True:
        newest = path.stat().st_ino
        found: list[BinaryIO] = []
        for name in (*(f"{path}.{number}" for number in range(LOG_FILES - 1, 0, -1)), str(path)):
            with suppress(FileNotFoundError):
                found.append(open(name, "rb"))  # noqa: SIM115 - the caller closes them
        if found and os.fstat(found[-1].fileno()).st_ino == newest:
            return found
        _close(found)  # the shim began a new file at this moment: open all files again


def _begin(path: Path, lines: int | None) -> BinaryIO:
    """Return the open file in which the last `lines` lines of the log begin, positioned at the first of these lines.
    `lines`: None for all lines."""
    files = _files(path)
    at = 0
    if lines is not None:
        at = len(files) - 1
        while at > 0 and (held := _lines(files[at])) < lines:
            lines -= held
            at -= 1
        files[at].seek(_tail_offset(files[at], lines))
    _close(files[:at] + files[at + 1 :])
    return files[at]


def _after(path: Path, file: BinaryIO) -> BinaryIO | None:
    """Return the file after this one in the log; None if this is the newest. If this file was deleted, return the
    oldest."""
    try:
        files = _files(path)
    except FileNotFoundError:
        return None
    mine = os.fstat(file.fileno()).st_ino
    at = next((at for at, one in enumerate(files) if os.fstat(one.fileno()).st_ino == mine), -1) + 1
    _close(files[:at] + files[at + 1 :])
    return files[at] if at < len(files) else None


def _close(files: Iterable[BinaryIO]) -> None:
    for file in files:
        file.close()


def _lines(file: BinaryIO) -> int:
    file.seek(0)
    return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK), b""))


def _render(lines: list[bytes], options: LogOptions) -> Iterator[bytes]:
    since = options.since.encode()
    for line in lines:
        stamp, _, rest = line.partition(b" ")
        _, tag, text = [*rest.split(b" ", 2), b"", b""][:3]
        if stamp < since:
            continue
        end = b"" if tag == b"P" else b"\n"
        yield (stamp + b" " + text if options.timestamps else text) + end


def _tail_offset(file: BinaryIO, lines: int) -> int:
    """Return the offset at which the last `lines` lines begin. The file is read backwards, so that the time does not
    depend on the size of the log."""
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
    """Skip `skip` newlines from the end of the block, and return the offset after the newline before them."""
    at = len(block)
    for _ in range(skip + 1):
        at = block.rfind(b"\n", 0, at)
    return at + 1


def last_lines(path: Path, lines: int, most_bytes: int) -> str:
    """Return the last lines of the log, for a termination message."""
    if not path.exists():
        return ""
    text = b""
    file: BinaryIO | None = _begin(path, lines)
    while file is not None:
        later = _after(path, file)
        with file:
            text += b"".join(_render(file.read().split(b"\n")[:-1], LogOptions()))
        file = later
    return text[-most_bytes:].decode(errors="replace")
