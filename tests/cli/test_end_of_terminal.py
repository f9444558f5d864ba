"""The end of a terminal, ssh session or client deletes no Job. `phalanx run` and `phalanx attach`, for real."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import termios
from functools import partial
from pathlib import Path

import pytest

from tests.cli.upstart import PHALANX, Up, until
from tests.kubectl import KUBECTL

pytestmark = pytest.mark.slow
CTRL_C, CTRL_D = b"\x03", b"\x04"


@pytest.fixture
def up(shared_up: Up) -> Up:
    return shared_up


def run_words(name: str, until_file: Path) -> tuple[str, ...]:
    """`phalanx run` of a Job that prints a line and ends with 3 once the file is there."""
    script = f"echo begun; until [ -e {until_file} ]; do sleep 0.1; done; exit 3"
    return (*PHALANX, "run", "--name", name, "--", "sh", "-c", script)


def is_active(up: Up, name: str) -> bool:
    job = up.call(KUBECTL, "get", "job", name, "-o", "jsonpath={.metadata.deletionTimestamp}/{.status.active}")
    return job.stdout == "/1"


def start(up: Up, words: tuple[str, ...], *, is_hangup_ignored: bool = False) -> subprocess.Popen[str]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN) if is_hangup_ignored else None
    try:
        return subprocess.Popen(
            words,
            env=up.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        if is_hangup_ignored:
            signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signals_end_run_and_leave_its_job(up: Up, tmp_path: Path, number: signal.Signals) -> None:
    name = f"left-{number.name.lower()}"
    with start(up, run_words(name, tmp_path / "end")) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.readline() == "begun\n"
        run.send_signal(number)
        assert run.wait(timeout=120) == 128 + number
        said = run.stderr.read()
    assert f"`phalanx attach default/{name}` follows it again" in said
    until(lambda: is_active(up, name))
    (tmp_path / "end").touch()
    again = up.phalanx("attach", f"default/{name}")
    assert (again.returncode, again.stdout) == (3, "begun\n"), again


def test_nohup_run_outlives_its_terminal(up: Up, tmp_path: Path) -> None:
    with start(up, run_words("nohup", tmp_path / "end"), is_hangup_ignored=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        run.send_signal(signal.SIGHUP)
        (tmp_path / "end").touch()
        assert run.wait(timeout=120) == 3


class Terminal:
    """A command under a terminal of its own, as a user types at it."""

    def __init__(self, up: Up, *words: str) -> None:
        self.master, inner = pty.openpty()
        self.process = subprocess.Popen(
            words, env=up.environment, stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(inner)
        self.text = ""

    def read_until(self, words: str) -> None:
        while words not in self.text:
            self.text += os.read(self.master, 4096).decode()

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def end(self) -> int:
        """Read to the end and return the exit code."""
        try:
            while part := os.read(self.master, 4096):
                self.text += part.decode()
        except OSError:  # the other side is closed
            pass
        os.close(self.master)
        return self.process.wait(timeout=120)


def test_only_a_clear_yes_deletes_at_the_prompt(up: Up, tmp_path: Path) -> None:
    first = Terminal(up, *run_words("asked", tmp_path / "end"))
    first.read_until("begun")
    terminals = [first]
    for _ in range(7):
        terminals.append(Terminal(up, *PHALANX, "attach", "asked"))
    for terminal, keys in zip(
        terminals, (b"\n", b"n\n", b"l\n", b"q\n", b"x\n", b"yesterday\n", CTRL_D, CTRL_C), strict=True
    ):
        terminal.read_until("begun")
        terminal.type(CTRL_C)
        terminal.read_until("[y/N]")
        terminal.type(keys)
        assert terminal.end() == 130, keys
        assert "goes on; `phalanx attach default/asked`" in terminal.text, (keys, terminal.text)
        until(lambda: is_active(up, "asked"))
    last = Terminal(up, *PHALANX, "attach", "asked")
    last.read_until("begun")
    last.type(CTRL_C)
    last.read_until("[y/N]")
    last.type(b"y\n")
    assert last.end() == 130
    assert "job default/asked was deleted" in last.text
    until(lambda: "asked" not in up.kubectl("get", "jobs,pods", "--output", "name"))


def test_closing_the_terminal_leaves_the_job(up: Up, tmp_path: Path) -> None:
    """The kernel sends SIGHUP when the terminal's other side is closed, also while the question is open."""
    for name, is_asked in (("closed", False), ("closed-asked", True)):
        terminal = Terminal(up, *run_words(name, tmp_path / "end"))
        terminal.read_until("begun")
        if is_asked:
            terminal.type(CTRL_C)
            terminal.read_until("[y/N]")
        os.close(terminal.master)
        assert terminal.process.wait(timeout=120) != 0
        until(partial(is_active, up, name))
    (tmp_path / "end").touch()


def test_attach_to_an_unknown_job_names_the_way_to_find_it(up: Up) -> None:
    said = up.phalanx("attach", "nothing")
    assert said.returncode == 1
    assert "there is no job default/nothing" in said.stderr
