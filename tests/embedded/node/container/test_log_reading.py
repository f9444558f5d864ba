"""Reading a container's log as `kubectl logs` asks for it."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from phalanx.embedded.node.container.log.reading import LogOptions, last_lines, read, since_text

STAMPS = [f"2026-01-01T00:00:0{second}.000000000Z" for second in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_text("".join(f"{stamp} stdout F line {number}\n" for number, stamp in enumerate(STAMPS)))
    return path


def text(path: Path, options: LogOptions) -> str:
    async def run() -> bytes:
        return b"".join([piece async for piece in read(path, options, lambda: True)])

    return asyncio.run(run()).decode()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (LogOptions(), "line 0\nline 1\nline 2\nline 3\nline 4\n"),
        (LogOptions(tail_lines=2), "line 3\nline 4\n"),
        (LogOptions(tail_lines=0), ""),
        (LogOptions(tail_lines=99, limit_bytes=9), "line 0\nli"),
        (LogOptions(since=STAMPS[3]), "line 3\nline 4\n"),
        (LogOptions(tail_lines=1, timestamps=True), f"{STAMPS[4]} line 4\n"),
    ],
)
def test_options(path: Path, options: LogOptions, expected: str) -> None:
    assert text(path, options) == expected


def test_a_log_of_several_files_is_one_log(path: Path) -> None:
    older = path.with_name("0.log.1")
    path.rename(older)
    path.write_text(f"{STAMPS[4]} stdout F line 5\n{STAMPS[4]} stdout F line 6\n")
    assert text(path, LogOptions()).split("\n") == [*(f"line {number}" for number in range(7)), ""]
    assert text(path, LogOptions(tail_lines=3)) == "line 4\nline 5\nline 6\n"
    assert text(path, LogOptions(tail_lines=2)) == "line 5\nline 6\n"
    assert text(path, LogOptions(tail_lines=99)) == text(path, LogOptions())
    assert last_lines(path, 4, 1000) == "line 3\nline 4\nline 5\nline 6\n"


def test_following_goes_on_in_the_next_file(path: Path) -> None:
    """The file gets another name while it is read, twice before the reader looks again."""
    seen = bytearray()

    def turn() -> bool:
        if not seen:
            return False
        if not path.with_name("0.log.2").exists():
            for number in (5, 6):
                if path.with_name("0.log.1").exists():
                    path.with_name("0.log.1").rename(path.with_name("0.log.2"))
                path.rename(path.with_name("0.log.1"))
                path.write_text(f"{STAMPS[4]} stdout F line {number}\n")
            return False
        return b"line 6" in seen

    async def run() -> None:
        async for piece in read(path, LogOptions(follow=True), turn):
            seen.extend(piece)

    asyncio.run(run())
    assert seen.decode().split("\n") == [*(f"line {number}" for number in range(7)), ""]


def test_parts_of_a_long_line_are_one_line_again(path: Path) -> None:
    path.write_text(f"{STAMPS[0]} stdout P ab\n{STAMPS[0]} stdout P cd\n{STAMPS[0]} stdout F ef\n")
    assert text(path, LogOptions()) == "abcdef\n"


def test_a_time_compares_with_stamps() -> None:
    moment = dt.datetime(2026, 1, 1, 1, 0, 3, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert since_text(moment) == STAMPS[3]


def test_following_ends_with_the_container_and_misses_nothing(path: Path) -> None:
    pieces: list[bytes] = []

    async def run() -> list[bytes]:
        """It ends as soon as the first piece was read, with words that nobody has seen yet."""
        async for piece in read(path, LogOptions(follow=True, tail_lines=1), lambda: bool(pieces)):
            if not pieces:
                with path.open("a") as file:
                    file.write(f"{STAMPS[4]} stdout F last words\n")
            pieces.append(piece)
        return pieces

    assert b"".join(asyncio.run(run())) == b"line 4\nlast words\n"


def test_the_tail_of_a_large_log(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text("".join(f"{STAMPS[0]} stdout F {number}\n" for number in range(50_000)))
    assert text(path, LogOptions(tail_lines=3)) == "49997\n49998\n49999\n"
    assert text(path, LogOptions(tail_lines=30_000)).startswith("20000\n")
    assert last_lines(path, 2, 1000) == "49998\n49999\n"
