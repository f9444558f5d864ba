"""Inside the pods of jobs on a real `phalanx up`: shells, files and ports."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.upstart import PHALANX, Up, until
from tests.kubectl import KUBECTL

SERVER = """
import os, socket
listener = socket.create_server((os.environ["POD_IP"], int(os.environ["PORT"])))
while True:
    peer, _ = listener.accept()
    peer.sendall(peer.recv(100).upper())
    peer.close()
"""


@pytest.fixture(scope="module")
def up(shared_up: Up) -> Iterator[Up]:
    """A Job `job` with two pods that run."""
    done = shared_up.phalanx("submit", "--name", "job", "--pods", "2", "--", "sleep", "600")
    assert done.returncode == 0, done.stderr
    assert shared_up.phalanx("wait", "job", "--for", "running").returncode == 0
    phases = ("get", "pods", "-l", "job-name=job", "-o", "jsonpath={.items[*].status.phase}")
    until(lambda: shared_up.kubectl(*phases) == "Running Running")
    yield shared_up
    shared_up.phalanx("cancel", "job")
    until(lambda: shared_up.kubectl("get", "jobs,pods", "-l", "job-name=job", "--output", "name") == "")


def call(up: Up, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, whose standard input is a pipe."""
    command = (*PHALANX, *words)
    return subprocess.run(
        command, input=text, env=up.environment, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.slow
def test_a_command_in_a_pod_has_input_output_and_an_exit_code(up: Up) -> None:
    done = call(up, "shell", "job/1", "--", "sh", "-c", "echo $JOB_COMPLETION_INDEX; echo wrong >&2; exit 5")
    assert (done.returncode, done.stdout, done.stderr) == (5, "1\n", "wrong\n")
    done = call(up, "shell", "job/0", "--", "sh", "-c", "cat; echo end", text="through\n")
    assert (done.returncode, done.stdout) == (0, "through\nend\n")
    assert "the first of 2 running pods" in call(up, "shell", "job", "--", "true").stderr
    assert "no pod of default/job/7 runs" in call(up, "shell", "job/7", "--", "true").stderr
    assert "has no container 'other'. Its containers are: main." in call(up, "shell", "job/0", "-c", "other").stderr


@pytest.mark.slow
def test_a_shell_at_a_terminal_is_interactive_and_knows_its_size(up: Up) -> None:
    ours, theirs = pty.openpty()
    environment = up.environment | {"COLUMNS": "91", "LINES": "17"}
    command = (*PHALANX, "shell", "job/0")
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        os.write(ours, b"test -t 0 && stty size; exit 3\n")
        said = b""
        try:
            while piece := os.read(ours, 4096):
                said += piece
        except OSError:  # the other side of a terminal was closed
            pass
        assert process.wait(timeout=240) == 3
    os.close(ours)
    assert b"17 91" in said


class Typist:
    """A person at a terminal of 91 columns who runs `phalanx WORDS`."""

    def __init__(self, up: Up, *words: str) -> None:
        self._terminal, theirs = pty.openpty()
        environment = up.environment | {"COLUMNS": "91", "LINES": "17"}
        command = (*PHALANX, *words)
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.seen = b""

    def type(self, text: str, after: str) -> None:
        """Type, as soon as the screen shows `after`."""
        self._read(lambda: after.encode() in self.seen)
        self.seen = b""
        os.write(self._terminal, text.encode())

    def end(self) -> tuple[int, str]:
        """Return the exit code, and the rest of the output."""
        self._read(lambda: False)
        os.close(self._terminal)
        return self.process.wait(timeout=240), self.seen.decode()

    def _read(self, enough: Callable[[], bool]) -> None:
        while not enough():
            ready, _, _ = select.select([self._terminal], [], [], 240)
            assert ready, self.seen
            try:
                piece = os.read(self._terminal, 4096)
            except OSError:  # the other side of the terminal was closed
                return
            self.seen += piece


@pytest.mark.slow
def test_run_at_a_terminal_is_interactive_and_attach_returns_to_it(up: Up) -> None:
    first = Typist(up, "run", "-it", "--name", "desk", "--env", "PS1=desk> ", "--", "sh")
    first.type("stty size; sleep 500\n", after="desk> ")
    first.type("\x03", after="17 91\r\n")  # Ctrl-C ends the sleep, and neither the shell nor the job
    first.type("echo $((100 + $?))\n", after="desk> ")
    first._read(lambda: b"230\r\n" in first.seen)
    first.process.send_signal(signal.SIGTERM)
    code, said = first.end()
    assert code == 143
    assert "job default/desk goes on; `phalanx attach default/desk`" in said

    again = Typist(up, "attach", "desk")
    again.type("exit 7\n", after="230\r\n")  # what the screen showed before
    code, said = again.end()
    assert code == 7
    assert "phalanx: job default/desk failed: exit code 7\r\n" in said


@pytest.mark.slow
def test_run_passes_standard_input_on_and_refuses_a_terminal_that_is_none(up: Up) -> None:
    done = call(up, "run", "--stdin", "--", "sh", "-c", "cat; exit 3", text="one\ntwo\n")
    assert (done.returncode, done.stdout) == (3, "one\ntwo\n")
    done = call(up, "run", "-it", "--name", "none", "--", "sh", text="ls\n")
    assert done.returncode == 1
    assert "--tty (-it) needs a terminal, but standard input or output is not a terminal" in done.stderr
    assert "not found" in up.call(KUBECTL, "get", "job", "none").stderr


@pytest.mark.slow
def test_files_go_there_and_back(up: Up, tmp_path: Path) -> None:
    there = tmp_path / "there"
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "file").write_bytes(os.urandom(300_000))
    assert up.phalanx("cp", str(tmp_path / "data"), f"job/0:{there}/").returncode == 0
    assert up.phalanx("cp", f"job/0:{there}/data", str(tmp_path / "back")).returncode == 0
    before, after = ((tmp_path / name / "deep" / "file").read_bytes() for name in ("data", "back"))
    assert before == after
    assert up.phalanx("cp", f"job/0:{there}/data/deep/file", str(tmp_path)).returncode == 0
    assert (tmp_path / "file").read_bytes() == before
    assert "Cannot stat" in up.phalanx("cp", f"job/0:{there}/none", str(tmp_path)).stderr
    assert "cannot be read" in up.phalanx("cp", str(tmp_path / "none"), f"job/0:{there}").stderr
    assert "one path must be on this machine" in up.phalanx("cp", "a", "b").stderr


@pytest.mark.slow
def test_a_port_of_a_pod_is_reached_at_loopback(up: Up, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = f"POD_IP=$(hostname -i | cut -d' ' -f1) PORT={port} exec python3 {tmp_path / 'server.py'}"
    assert up.phalanx("submit", "--name", "server", "--", "sh", "-c", script).returncode == 0
    assert up.phalanx("wait", "server", "--for", "running").returncode == 0
    command = (*PHALANX, "port-forward", "server", f"0:{port}")
    with subprocess.Popen(command, env=up.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        place = process.stdout.readline().partition(" ->")[0]

        def answers() -> bool:
            host, _, local = place.partition(":")
            with socket.create_connection((host, int(local)), timeout=60) as peer:
                peer.sendall(b"hello")
                return peer.recv(100) == b"HELLO"

        until(answers)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    up.phalanx("cancel", "server")
