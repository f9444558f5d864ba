"""The status of queues: what it says, and that nothing is written twice."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

from phalanx.client.connection import ApiUnknown
from phalanx.kube.status.queue_status import StatusSource, exact, keep_queue_statuses, queue_status, write_statuses
from phalanx.model.queue import QueueState
from phalanx.model.status import QueuePosition, QueueStatus, ResourceUsage
from tests import clockwork
from tests.kube.double import Object, merge

OBJ: Object = {"metadata": {"name": "q", "uid": "u", "generation": 3}, "spec": {}}


def standing(**more: Any) -> QueueStatus:
    cpu = ResourceUsage(flavor="", resource="cpu", used=6000, guaranteed=4000)
    usual: dict[str, Any] = {
        "queue": "q",
        "parent": "",
        "depth": 0,
        "pending": 1,
        "running": 2,
        "share": 0.25,
        "held_by": "",
        "usage": (cpu, ResourceUsage(flavor="", resource="pods", used=6)),
        "state": QueueState.OPEN,
        "state_since_s": 0.0,
        "fault": "",
        "first": (QueuePosition(job="default/a", position=1, code="NoRoom", start_s=60.0),),
    }
    return QueueStatus(**{**usual, **more})


def test_it_says_what_is_used_and_who_waits() -> None:
    status = queue_status(standing(), "", OBJ, 0.0)
    assert (status["used"], status["share"], status["pending"], status["running"]) == ("6/4 cpu", 0.25, 1, 2)
    assert status["usage"][0] == {
        "flavor": "",
        "resource": "cpu",
        "used": "6",
        "guaranteed": "4",
        "borrowed": "2",
    }
    [place] = status["pendingJobs"]
    assert place == {"job": "default/a", "position": 1, "reason": "NoRoom", "expectedStart": "1970-01-01T00:01:00Z"}
    assert "stateSince" not in status


def test_the_condition_says_why_nothing_starts_and_since_when() -> None:
    def active(wrong: str = "", obj: Object = OBJ, **more: Any) -> tuple[str, str, str]:
        [one] = queue_status(standing(**more), wrong, obj, 60.0)["conditions"]
        return one["status"], one["reason"], one["lastTransitionTime"]

    assert active() == ("True", "Ready", "1970-01-01T00:01:00Z")
    assert active(fault="queue 'q' is below itself")[:2] == ("False", "Misconfigured")
    assert active("spec.weight: -1 is not a number")[:2] == ("False", "Misconfigured")
    assert active(state=QueueState.HELD)[:2] == active(held_by="lab")[:2] == ("False", "Held")
    assert active(state=QueueState.DRAINING)[:2] == ("True", "Draining")
    assert active(state=QueueState.CLOSED)[:2] == ("False", "Closed")
    before = {**OBJ, "status": queue_status(standing(), "", OBJ, 0.0)}
    assert active(obj=before)[2] == "1970-01-01T00:00:00Z"


def test_a_share_without_end_is_a_number_all_the_same() -> None:
    assert queue_status(standing(share=inf), "", OBJ, 0.0)["share"] == 1e6


def test_amounts_lose_nothing() -> None:
    assert (exact("cpu", 1500), exact("memory", 3 << 30), exact("memory", 1001), exact("x/gpu", 8)) == (
        *("1500m", "3Gi", "1001", "8"),
    )


class Patched:
    """A server with one queue: counts what is written."""

    def __init__(self) -> None:
        self.obj: Object = {**OBJ}
        self.writes = 0

    async def patch(self, kind: object, name: str, body: Object, **_: str) -> Object:
        self.writes += 1
        merge(self.obj, {"status": body["status"]})
        return self.obj


def test_what_is_as_it_was_is_not_written_and_what_is_no_longer_true_goes() -> None:
    async def scene() -> None:
        api, written = Patched(), dict[str, Object]()
        sight = StatusSource(standings=list, wrong=dict, objects=lambda: {"q": api.obj})
        for now_s, state in (
            (0.0, QueueState.HELD),
            (5.0, QueueState.HELD),
            (9.0, QueueState.OPEN),
            (12.0, QueueState.OPEN),
        ):
            found = [standing(state=state, state_since_s=1.0)]
            await write_statuses(api, sight, found, now_s, written)  # type: ignore[arg-type]  # it only patches
        assert api.writes == 2
        assert "stateSince" not in api.obj["status"]

    clockwork.run(scene())


class Failing:
    """A server that answers writes of some queues with 500."""

    def __init__(self, bad: set[str]) -> None:
        self.bad, self.tried = bad, list[str]()

    async def patch(self, kind: object, name: str, body: Object, **_: str) -> Object:
        self.tried.append(name)
        if name in self.bad:
            raise ApiUnknown("500")
        return {}


def test_a_write_that_fails_stops_no_other_and_is_retried_last() -> None:
    async def scene() -> None:
        api: Any = Failing({"q0", "q1", "q3", "q4"})
        names = [f"q{number}" for number in range(6)]
        sight = StatusSource(
            standings=lambda: [standing(queue=name) for name in names],
            wrong=dict,
            objects=lambda: {name: {**OBJ, "metadata": {**OBJ["metadata"], "name": name}} for name in names},
        )
        keeping = asyncio.create_task(keep_queue_statuses(api, sight, lambda: 0.0))
        await asyncio.sleep(1.0)
        assert api.tried == ["q0", "q1", "q2", "q3"]  # the server may be down
        await asyncio.sleep(3.0)
        assert api.tried[4:] == ["q4", "q5", "q0", "q1"]
        api.bad = {"q0"}
        await asyncio.sleep(3.0)
        assert api.tried[8:] == ["q3", "q0", "q1", "q4"]
        await asyncio.sleep(3.0)
        assert api.tried[12:] == ["q0"]
        keeping.cancel()

    clockwork.run(scene())
