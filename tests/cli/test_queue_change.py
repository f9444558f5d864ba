"""`cli/commands/administer/queue_change.py`: make a change of a queue, and warn about its faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.cli.commands.administer.queue_change import DryRun, QueueChange, carry_out
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import Kind
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from tests.cli.doctored import Cluster


def obj(name: str, **spec: object) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}, "spec": spec}


class Written(Cluster):
    """A cluster that records writes, or refuses them with `refusal`."""

    refusal: ApiRefusal | None = None

    async def replace(self, kind: Kind, obj: dict[str, Any], namespace: str = "", **params: str) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.objects[kind, obj["metadata"]["name"]] = obj
        return obj


async def test_the_change_is_written_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = obj("lab", weight=1), obj("lab", weight=2)
    api = Written((QUEUES, "lab", before))
    change = QueueChange(name="lab", action="changed", before=before, after=after)
    await carry_out(api, change, DryRun(json=True), None)
    assert api.objects[QUEUES, "lab"] == after
    expected = {"queue": "lab", "action": "changed", "changes": ["weight: 1 -> 2"]}
    assert json.loads(capsys.readouterr().out) == expected


async def test_a_change_at_the_same_time_is_named() -> None:
    before = obj("lab", weight=1)
    api = Written((QUEUES, "lab", before))
    api.refusal = ApiRefusal(409, "Conflict", "the object has been modified")
    change = QueueChange(name="lab", action="changed", before=before, after=obj("lab", weight=2))
    with pytest.raises(PhalanxError, match="Another user changed the queue at the same time: try again"):
        await carry_out(api, change, None, None)


async def test_a_status_that_the_scheduler_writes_at_the_same_time_stops_no_change() -> None:
    """The object is outdated twice, because its status has changed; a change of its spec would be refused."""
    before, after, versions = obj("lab", weight=1), obj("lab", weight=2), iter(("8", "9"))

    class Outdated(Written):
        async def replace(self, kind: Kind, obj: dict[str, Any], namespace: str = "", **params: str) -> dict[str, Any]:
            if (version := next(versions, None)) is not None:
                stored = {**before, "status": {"queued": int(version)}}
                self.objects[kind, "lab"] = {**stored, "metadata": {**before["metadata"], "resourceVersion": version}}
                raise ApiRefusal(409, "Conflict", "the object has been modified")
            return await super().replace(kind, obj, namespace, **params)

    api = Outdated((QUEUES, "lab", before))
    await carry_out(api, QueueChange(name="lab", action="changed", before=before, after=after), None, None)
    written = api.objects[QUEUES, "lab"]
    assert (written["spec"], written["status"]) == ({"weight": 2}, {"queued": 9})
    assert written["metadata"]["resourceVersion"] == "9"


async def test_a_change_of_the_spec_at_the_same_time_is_not_overwritten() -> None:
    before = obj("lab", weight=1)
    api = Written((QUEUES, "lab", obj("lab", weight=7)))
    api.refusal = ApiRefusal(409, "Conflict", "the object has been modified")
    change = QueueChange(name="lab", action="changed", before=before, after=obj("lab", weight=2))
    with pytest.raises(PhalanxError, match="Another user changed the queue"):
        await carry_out(api, change, None, None)
    assert api.objects[QUEUES, "lab"]["spec"] == {"weight": 7}


async def test_a_queue_that_would_start_no_jobs_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = obj("lab"), obj("lab", parent="nowhere")
    api = Written((QUEUES, "lab", before))
    await carry_out(api, QueueChange(name="lab", action="changed", before=before, after=after), None, None)
    assert "phalanx: warning: queue lab will start no jobs" in capsys.readouterr().err
