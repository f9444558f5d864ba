"""`slurm/jobs/steps/tasks.py`: the effect of signals to srun on its step, by the rules of Slurm (srun(1)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from phalanx.slurm.jobs.steps.tasks import interruptible


def test_a_step_that_ignores_term_is_killed_after_kill_wait() -> None:
    sent, killed = list[int](), threading.Event()

    def send(number: int) -> None:
        sent.append(number)
        if number == signal.SIGKILL:
            killed.set()

    with pytest.MonkeyPatch.context() as patch, interruptible_in_pod(patch, send):
        os.kill(os.getpid(), signal.SIGTERM)
        assert killed.wait(60)
    assert sent == [signal.SIGTERM, signal.SIGKILL]


@contextmanager
def interruptible_in_pod(patch: pytest.MonkeyPatch, send: Callable[[int], None]) -> Iterator[None]:
    patch.setenv("SLURMD_NODENAME", "n1")
    with interruptible(send, kill_wait_s=0.05):
        yield


def test_nohup_srun_ignores_the_end_of_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sent = list[int]()
    try:
        with interruptible(sent.append):
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert sent == [signal.SIGUSR1]
