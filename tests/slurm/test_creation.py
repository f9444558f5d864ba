"""The Jobs of an array, made over several connections."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from phalanx.slurm.cluster.api import RequestRefused, Unreachable
from phalanx.slurm.options import Usage
from phalanx.slurm.submission.creation import create_all


class Server:
    """`fails_at`: the call that is answered with an error."""

    def __init__(self, meet: int = 1, fails_at: int = -1, error: Exception | None = None) -> None:
        self.made: list[str] = []
        self.connections = 1
        self._lock, self._fails_at, self._error = threading.Lock(), fails_at, error
        self._together = threading.Barrier(meet)

    def another(self) -> Server:
        self.connections += 1
        return self

    def create(self, path: str, job: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.made.append(job["metadata"]["name"])
            number = len(self.made)
        if number == self._fails_at and self._error is not None:
            raise self._error
        if number <= self._together.parties:
            self._together.wait(timeout=120)  # all parties arrive together
        return {"metadata": {"name": job["metadata"]["name"], "uid": f"u{number}"}}


def parts(count: int) -> list[dict[str, Any]]:
    return [{"metadata": {"name": f"slurm-1-{at:07}"}} for at in range(count)]


def test_many_are_made_at_once_and_each_once() -> None:
    server, owners = Server(meet=8), list[dict[str, Any]]()
    create_all(server, parts(100), owners)  # type: ignore[arg-type]  # a double
    assert sorted(server.made) == [one["metadata"]["name"] for one in parts(100)]
    assert sorted(one["name"] for one in owners) == sorted(server.made)
    assert server.connections == 8


def test_few_are_made_in_their_order() -> None:
    server, owners = Server(), list[dict[str, Any]]()
    create_all(server, parts(63), owners)  # type: ignore[arg-type]  # a double
    assert (server.connections, server.made) == (1, [one["metadata"]["name"] for one in parts(63)])
    assert owners[0] == {"apiVersion": "batch/v1", "kind": "Job", "name": "slurm-1-0000000", "uid": "u1"}


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [(RequestRefused(403, "no"), Usage, "submission failed: no"), (Unreachable("away"), Unreachable, "away")],
)
def test_after_an_error_no_more_are_begun_and_those_that_are_there_are_known(
    error: Exception, kind: type[Exception], words: str
) -> None:
    server, owners = Server(fails_at=20, error=error), list[dict[str, Any]]()
    with pytest.raises(kind, match=words):
        create_all(server, parts(1000), owners)  # type: ignore[arg-type]  # a double
    assert 20 <= len(server.made) <= 20 + 8
    assert len(owners) == len(server.made) - 1
