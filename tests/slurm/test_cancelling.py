"""Many tasks of an array are cancelled at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from phalanx.slurm.cluster.api import RequestRefused
from phalanx.slurm.control.cancelling import cancel_all
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import JobInfo


class Server:
    """`refuses`: (method, end of the path), and with which code. `calls`: in their order."""

    def __init__(self, owners: int, refuses: dict[tuple[str, str], int] | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.owners = [{"name": f"slurm-9-{task:07}"} for task in range(owners)]
        self._refuses, self._lock = refuses or {}, threading.Lock()

    def another(self) -> Server:
        return self

    def within(self, namespace: str) -> Server:
        return self

    def _called(self, method: str, path: str) -> None:
        with self._lock:
            self.calls.append((method, path.rpartition("/")[2]))
        if code := self._refuses.get(self.calls[-1]):
            raise RequestRefused(code, "no")

    def get(self, path: str) -> dict[str, Any]:
        self._called("GET", path)
        return {"metadata": {"ownerReferences": self.owners, "resourceVersion": "7"}}

    def patch(self, path: str, body: Any) -> None:
        self._called("PATCH", path)
        if "secrets" in path:
            assert body["metadata"]["resourceVersion"] == "7"
            self.owners = body["metadata"]["ownerReferences"]

    def delete(self, path: str, **query: str) -> None:
        self._called("DELETE", path)


def tasks(count: int) -> list[JobInfo]:
    def ask(task: int) -> Ask:
        return Ask(name="j", user="u", uid=1, gid=1, group="g", account="a", partition="p", array=9, task=task)

    return [JobInfo(number=10 + task, ask=ask(task), state="PENDING") for task in range(count)]


def cancel(server: Server, going: list[JobInfo]) -> list[int]:
    told: list[int] = []
    cancel_all(server, going, lambda job, _: told.append(job.number), now=False)  # type: ignore[arg-type]  # a double
    return told


def test_the_secret_is_left_to_those_that_stay_and_to_the_one_that_goes_last() -> None:
    server = Server(owners=103)
    assert not cancel(server, tasks(100))
    assert [owner["name"] for owner in server.owners] == [f"slurm-9-{task:07}" for task in (99, 100, 101, 102)]
    assert server.calls[:2] == [("GET", "slurm-9"), ("PATCH", "slurm-9")]
    assert server.calls[-2:] == [("PATCH", "slurm-9-0000099"), ("DELETE", "slurm-9-0000099")]
    gone = [name for method, name in server.calls if method == "DELETE"]
    assert sorted(gone) == [f"slurm-9-{task:07}" for task in range(100)]


def test_few_go_without_that() -> None:
    server = Server(owners=3)
    assert not cancel(server, tasks(2))
    assert server.calls == [(how, f"slurm-9-000000{task}") for task in (0, 1) for how in ("PATCH", "DELETE")]


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_whoever_may_not_change_the_secret_cancels_all_the_same(method: str) -> None:
    server = Server(owners=20, refuses={(method, "slurm-9"): 403})
    assert not cancel(server, tasks(20))
    assert len(server.owners) == 20
    assert sum(method == "DELETE" for method, _ in server.calls) == 20


def test_one_that_is_refused_keeps_no_other() -> None:
    refuses = {("DELETE", "slurm-9-0000003"): 403, ("PATCH", "slurm-9-0000004"): 404}
    server = Server(owners=70, refuses=refuses)
    assert cancel(server, tasks(70)) == [13]
    assert sum(method == "DELETE" for method, _ in server.calls) == 69
