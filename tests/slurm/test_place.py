"""Reaching the daemon of a pod, which may be slow."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import pytest

from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.steps.pods import place
from phalanx.slurm.jobs.steps.pods.channel import Broken, Channel
from phalanx.slurm.jobs.steps.pods.place import Allocation

ASK = Ask(name="j", user="ada", uid=1, gid=1, group="g", account="lab", partition="batch")
HERE = Allocation(number=7, ask=ASK, nodes=("n1",), addresses=("127.0.0.1",), head=0, key="the job's key")


class Silent:
    """A connection that was accepted, to a daemon that is not scheduled in time, or gone before it answers."""

    def __init__(self, error: OSError) -> None:
        self.error, self.closed = error, False

    def settimeout(self, seconds: float | None) -> None: ...
    def sendall(self, content: bytes) -> None: ...
    def setsockopt(self, *words: int) -> None: ...

    def recv(self, most: int) -> bytes:
        raise self.error

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at it is ten seconds later."""
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(place.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(place.time, "sleep", lambda seconds: None)


def reach(monkeypatch: pytest.MonkeyPatch, found: Sequence[object]) -> Channel:
    answers = iter(found)
    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: next(answers))
    return HERE.channel(0)


def test_a_daemon_that_answers_late_is_asked_again(monkeypatch: pytest.MonkeyPatch, clock: None) -> None:
    late = [Silent(TimeoutError("timed out")) for _ in range(3)]
    with pytest.raises(Broken, match="gone"):
        reach(monkeypatch, [*late, Silent(ConnectionResetError("gone"))])
    assert [one.closed for one in late] == [True] * 3


def test_one_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, clock: None) -> None:
    silent = [Silent(TimeoutError("timed out")) for _ in range(99)]
    with pytest.raises(Broken, match="node n1 does not answer: timed out"):
        reach(monkeypatch, silent)
    assert [one.closed for one in silent].count(True) == 7  # within a minute
