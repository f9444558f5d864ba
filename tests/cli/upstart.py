"""A real `phalanx up` for a test: started, ready, and gone afterwards."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pytest

from phalanx.cli.app import main
from tests.kubectl import KUBECTL

PHALANX = (sys.executable, "-m", "phalanx.cli.app")
READY_S = 300.0


@dataclass(slots=True, kw_only=True)
class Up:
    """`said`: its output on both streams so far."""

    process: subprocess.Popen[str]
    data: Path
    said: list[str] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.data / "kubeconfig")}

    def phalanx(self, *words: str) -> subprocess.CompletedProcess[str]:
        return phalanx(*words, **self.environment)

    def kubectl(self, *words: str, timeout_s: float = 240.0) -> str:
        done = self.call(KUBECTL, *words, timeout_s=timeout_s)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, *words: str, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def read_until(self, words: str, timeout_s: float = READY_S) -> str:
        """The first line with `words` in it."""
        assert self.process.stdout is not None
        deadline_s = time.monotonic() + timeout_s
        for line in self.process.stdout:
            self.said.append(line)
            if words in line:
                return line
            assert time.monotonic() < deadline_s, self.text
        raise AssertionError(f"it ended without saying {words!r}:\n{self.text}")

    def stop(self, number: int = signal.SIGINT) -> str:
        """Send the signal of Ctrl-C, and return all its output."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=120)
        self.said += rest.splitlines(keepends=True)
        return self.text

    @property
    def text(self) -> str:
        return "".join(self.said)


def phalanx(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `phalanx WORDS` in this process, which has imported its modules. `PHALANX` starts a separate process."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", ["phalanx", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    out.seek(0)
    return subprocess.CompletedProcess(words, ended.value.code or 0, out.read(), err.getvalue())


@contextmanager
def started(data: Path, *words: str) -> Iterator[Up]:
    """`phalanx up WORDS` on `data`, ready."""
    command = (*PHALANX, "up", "--data", str(data), "--port", "0", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        up = Up(process=process, data=data)
        try:
            up.read_until("Ctrl-C stops it")
            yield up
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.communicate(timeout=120)
                except subprocess.TimeoutExpired:
                    process.kill()


def until(condition: Callable[[], bool], timeout_s: float = 240.0) -> None:
    """Between two looks is as much time as the first took: what is waited for needs the processors too."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        look_s = time.monotonic()
        if condition():
            return
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(max(0.05, time.monotonic() - look_s))  # other processes send no signal when they are ready


def is_alive(pid: int) -> bool:
    """It runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
