"""`shim/streams.py`: the program's output in the log, and its input from attached clients."""

from __future__ import annotations

import os
import re
import resource
import select
import struct
import termios
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from phalanx.embedded.node.container.shim import streams
from phalanx.embedded.node.container.shim.streams import (
    DATA,
    END,
    FRAME_MOST,
    LOG_FILES,
    RESIZE,
    Input,
    Log,
    ShimStream,
)

LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (stdout|stderr) ([FP]) (.*)\n", re.DOTALL)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(str(tmp_path / "main.log"))


def written(tmp_path: Path) -> list[tuple[bytes, bytes, bytes]]:
    """Return (stream, tag, text) of the lines of the log."""
    lines = (tmp_path / "main.log").read_bytes().splitlines(keepends=True)
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), lines
    return [match.group(2, 3, 4) for match in found if match is not None]


class Program:
    """The writing end of an output. `says`: it writes, and the shim reads."""

    def __init__(self, log: Log, name: str = "stdout", *, prompt: bool = False) -> None:
        source, self.end = os.pipe()
        self.stream = ShimStream(name, source, log, prompt=prompt)

    def says(self, data: bytes) -> bool:
        os.write(self.end, data)
        return self.stream.pump()

    def ends(self) -> bool:
        os.close(self.end)
        return self.stream.pump()


# --- output -----------------------------------------------------------------------------------------------------------


def test_each_line_has_its_time_its_stream_and_a_tag(log: Log, tmp_path: Path) -> None:
    out, err = Program(log), Program(log, "stderr")
    assert out.says(b"one\ntwo\n")
    assert err.says(b"\n")
    assert written(tmp_path) == [(b"stdout", b"F", b"one"), (b"stdout", b"F", b"two"), (b"stderr", b"F", b"")]


def test_a_line_waits_for_its_end(log: Log, tmp_path: Path) -> None:
    program = Program(log)
    program.says(b"on")
    assert written(tmp_path) == []
    program.says(b"e\ntw")
    assert written(tmp_path) == [(b"stdout", b"F", b"one")]
    assert not program.ends(), "the last writer has closed it"
    assert written(tmp_path)[1:] == [(b"stdout", b"F", b"tw")]


def test_an_output_without_a_word_leaves_no_line(log: Log, tmp_path: Path) -> None:
    program = Program(log)
    assert program.stream.pump(), "nothing to read yet"
    assert not program.ends()
    assert written(tmp_path) == []


def test_a_terminal_shows_a_prompt_at_once(log: Log, tmp_path: Path) -> None:
    program = Program(log, prompt=True)
    program.says(b"$ ")
    program.says(b"ls\n")
    assert written(tmp_path) == [(b"stdout", b"P", b"$ "), (b"stdout", b"F", b"ls")]


@pytest.mark.parametrize(("length", "tags"), [(16384, "F"), (16385, "PF"), (32768, "PF"), (40000, "PPF"), (0, "F")])
def test_long_lines_are_cut_into_parts(log: Log, tmp_path: Path, length: int, tags: str) -> None:
    """CRI: a line of more than 16 KiB is several entries with the tag P, and a last one with F."""
    for feed in (
        [b"x" * length + b"\n"],
        [*(b"x" * 1000 for _ in range(length // 1000)), b"x" * (length % 1000), b"\n"],
    ):
        program = Program(log)
        for piece in feed:
            if piece:
                program.says(piece)
        program.ends()
    found = written(tmp_path)
    assert "".join(tag.decode() for _, tag, _ in found) == tags * 2
    assert sum(len(text) for _, _, text in found) == 2 * length


def test_a_full_log_begins_a_new_file(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LOG_BYTES", 50)
    for number in range(8):
        log.write(b"%d " % number + b"x" * 60 + b"\n")
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["main.log", *(f"main.log.{number}" for number in range(1, LOG_FILES))]
    assert (tmp_path / "main.log").read_bytes() == b""
    assert [(tmp_path / f"main.log.{at}").read_bytes()[:1] for at in range(1, LOG_FILES)] == [b"7", b"6", b"5", b"4"]


def test_a_new_supervisor_continues_the_log(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LOG_BYTES", 50)
    log.write(b"x" * 40 + b"\n")
    Log(str(tmp_path / "main.log")).write(b"y" * 20 + b"\n")
    assert (tmp_path / "main.log.1").read_bytes() == b"x" * 40 + b"\n" + b"y" * 20 + b"\n", "the old size counts"


def test_a_full_disk_tears_no_line(log: Log, tmp_path: Path) -> None:
    """Output is lost while no byte can be written, but the lines before and after stay whole."""
    program = Program(log)
    program.says(b"before\n")
    full = (tmp_path / "main.log").stat().st_size + 10
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, limit[1]))  # a write stops there, as on a full disk
    try:
        program.says(b"lost\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    program.says(b"after\n")
    assert [text for _, _, text in written(tmp_path)] == [b"before", b"after"]


# --- input ------------------------------------------------------------------------------------------------------------


def frame(sort: int, content: bytes = b"") -> bytes:
    return bytes([sort]) + len(content).to_bytes(2, "little") + content


class Attached:
    """An input with its program. `send`: a client writes to the named pipe, and the shim passes it on."""

    def __init__(self, path: Path, read: int, write: int, *, tty: bool = False) -> None:
        self.read = read
        self.input = Input(str(path), write, tty=tty)
        self.poll = select.poll()
        self.input.watch(self.poll)
        self.client = os.open(path, os.O_WRONLY)
        os.set_blocking(read, False)

    def send(self, data: bytes) -> None:
        os.write(self.client, data)
        self.pump()

    def pump(self) -> None:
        assert {handle for handle, _ in self.poll.poll(0)} & {self.input.source, self.input.target}
        self.input.pump(self.poll)

    def got(self) -> bytes:
        try:
            return os.read(self.read, 1 << 20)
        except BlockingIOError:
            return b"nothing"


@pytest.fixture
def attached(tmp_path: Path) -> Attached:
    return Attached(tmp_path / "stdin", *os.pipe())


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[[], Attached]]:
    opened: list[int] = []

    def make() -> Attached:
        ours, its = os.openpty()
        opened.extend((ours, its))
        return Attached(tmp_path / "stdin", its, os.dup(ours), tty=True)

    yield make
    for handle in opened:
        os.close(handle)


def test_data_of_clients_reaches_the_program_in_order(attached: Attached) -> None:
    attached.send(frame(DATA, b"one ") + frame(DATA, b"two"))
    assert attached.got() == b"one two"
    assert attached.got() == b"nothing"


def test_a_frame_may_come_in_parts(attached: Attached) -> None:
    whole = frame(DATA, b"x" * FRAME_MOST)
    sent = 0
    for at in (1, 2, 5, 2000, len(whole)):
        attached.send(whole[sent:at])
        sent = at
    assert attached.got() == b"x" * FRAME_MOST


def test_the_end_of_the_input_closes_the_pipe_after_the_data(attached: Attached) -> None:
    attached.send(frame(DATA, b"last") + frame(END) + frame(DATA, b"too late"))
    assert attached.got() == b"last"
    assert attached.got() == b"", "the program reads the end"
    attached.send(frame(DATA, b"ignored"))
    assert attached.got() == b""


def test_a_program_that_does_not_read_stops_the_clients_and_loses_nothing(attached: Attached) -> None:
    sent = 0
    while not attached.input._pending:
        attached.send(frame(DATA, b"x" * FRAME_MOST))
        sent += FRAME_MOST
    os.write(attached.client, frame(DATA, b"more"))
    assert attached.poll.poll(0) == [], "no frame is taken while the program takes no data"
    got = 0
    while attached.input._pending or not got:
        got += len(attached.got())
        attached.pump()
    attached.pump() if attached.poll.poll(0) else None
    rest = attached.got()
    assert got + len(rest) == sent + len(b"more")
    assert rest.endswith(b"more")


def test_a_program_that_has_closed_its_input_takes_no_more(attached: Attached) -> None:
    os.close(attached.read)
    attached.send(frame(DATA, b"x"))
    assert attached.input.target == -1
    attached.send(frame(DATA, b"y") + frame(RESIZE, b"z" * 8) + frame(END))
    assert attached.input._pending == b""


def test_a_terminal_gets_its_size(terminal: Callable[[], Attached]) -> None:
    attached = terminal()
    attached.send(frame(RESIZE, struct.pack("HHHH", 24, 80, 0, 0)))
    assert struct.unpack("HHHH", ioctl(attached.read, termios.TIOCGWINSZ, b"\0" * 8))[:2] == (24, 80)


def test_a_pipe_has_no_size(attached: Attached) -> None:
    attached.send(frame(RESIZE, struct.pack("HHHH", 24, 80, 0, 0)) + frame(DATA, b"x"))
    assert attached.got() == b"x"


def test_the_end_of_the_input_of_a_terminal_is_a_control_d(terminal: Callable[[], Attached]) -> None:
    """Other clients may still write: the terminal stays open."""
    attached = terminal()
    attached.send(frame(DATA, b"a\n") + frame(END))
    assert (attached.got(), attached.got()) == (b"a\n", b"")
    attached.send(frame(DATA, b"b\n"))
    assert attached.got() == b"b\n"


def test_frames_are_written_whole() -> None:
    """A write of at most PIPE_BUF bytes is atomic (pipe(7)), so frames of several clients do not mix."""
    assert len(frame(DATA, b"x" * FRAME_MOST)) <= select.PIPE_BUF
