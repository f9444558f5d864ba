"""Reaching the daemon of a pod, which may be slow."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.jobs.ask import ASK as WORDS
from phalanx.slurm.jobs.ask import KEY, SECRET, Ask
from phalanx.slurm.jobs.steps.pods import place
from phalanx.slurm.jobs.steps.pods.channel import Broken, Channel
from phalanx.slurm.jobs.steps.pods.place import Allocation, Gone, allocation
from phalanx.slurm.jobs.steps.pods.told import PodAddress

ASK = Ask(name="j", user="ada", uid=1, gid=1, group="g", account="lab", partition="batch")
POD = PodAddress("slurm-7-0-abcde", "n1", "127.0.0.1")
HERE = Allocation(number=7, ask=ASK, pods=(POD,), head=0, key="the job's key", through=None)
STARTED = "2026-01-02T03:04:05Z"


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


# --- pods that tell where they are ------------------------------------------------------------------------------------


class Own(ApiClient):
    """The API server as the token of job 7 sees it: that Job and its Secret."""

    def __init__(self, job: dict[str, Any] | None) -> None:
        super().__init__(KubeconfigCluster(server="http://api"), KubeconfigUser(token="t"), of_job=True)
        self.job = job

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if path.endswith("jobs/slurm-7") and self.job is not None:
            return self.job
        if path.endswith("secrets/slurm-7"):
            return {"data": {KEY: base64.b64encode(b"k").decode(), "PHALANX_PATH": ""}}
        raise RequestRefused(404 if self.job is None else 403, f"{path} is not yours")

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        assert self.job is not None
        self.job["metadata"]["annotations"] |= body["metadata"]["annotations"]
        return self.job


def started(nodes: int) -> Own:
    ask = {"name": "j", "user": "a", "uid": 1, "gid": 1, "group": "g", "account": "l", "partition": "b"}
    notes = {WORDS: json.dumps({**ask, "nodes": nodes, "tasks": nodes, "said_nodes": True}), SECRET: "slurm-7"}
    return Own({"metadata": {"annotations": notes}, "status": {"startTime": STARTED}})


def test_a_token_is_of_no_use_for_other_jobs() -> None:
    with pytest.raises(PhalanxError, match=r"job 8 cannot be read from here: .* a kubeconfig is needed"):
        allocation(started(1), 8)


def test_a_job_that_is_over_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Gone, match="Job 7 is over"):
        allocation(Own(None), 7)
