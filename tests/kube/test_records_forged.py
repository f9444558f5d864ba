"""Point 3 of the protocol: a restart continues starts of the scheduler, and ignores records of other writers."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS, LIMIT_RANGES, PODS, Kind
from phalanx.kube.gang.lifecycle.stages import Stage as GangStage
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.install.installation import obtain_record_key
from phalanx.kube.read.labels import ADMITTED
from phalanx.kube.read.records import RecordKey, StartRecord, read_start_record
from phalanx.kube.routing.caches import _serves
from phalanx.model.job import Phase
from tests import clockwork
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage

FORGED = StartRecord(attempt=1, queue="default", count=4, at_s=900.0)


def resumed(name: str, pods: int, record: str) -> Object:
    """A Job that its user resumed himself, with the record of a start."""
    made = job(name, pods)
    made["spec"]["suspend"] = False
    made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), ADMITTED: record}
    return made


def test_a_forged_record_does_not_jump_the_queue() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("first", 4))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(job("second", 4))
            await stage.turn()
            stage.put(resumed("forged", 4, FORGED.text()))
            await stage.turn()
        for name in list(stage.api.bound()):
            stage.finish(name.removeprefix("default/"))
        async with stage.scheduler():
            await stage.until(lambda: any("second" in name for name in stage.api.bound()))
            assert not any(name.startswith("default/forged") for name in stage.api.bound())

    clockwork.run(scene())


@pytest.mark.parametrize("of", ["another Job", "another time"])
def test_a_record_is_good_for_the_job_that_it_was_written_on(of: str) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1"), node("n2")])
        stage.put(job("mine", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
        found = stage.api.objects[JOBS]["default/mine"]
        text = found["metadata"]["annotations"][ADMITTED]
        if of == "another Job":
            stage.put(resumed("copied", 2, text))
        else:
            stage.change("mine", {}, {ADMITTED: text.replace('"count":2', '"count":1')})
        async with stage.scheduler():
            gang = stage.world.gangs["default/copied" if of == "another Job" else "default/mine"]
            assert gang.waits

    clockwork.run(scene())


def test_what_an_older_version_started_since_there_is_a_key_is_gone_on_with() -> None:
    """After a downgrade to a version without signatures and an upgrade, such a Job once counted as running and as
    pending on kube-apiserver 1.36, and its pods as foreign. The size and the priority in its record are not trusted."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("old", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
        stage.key = RecordKey(secret=b"made before these were started", since_s=1.0)
        unsigned = StartRecord(attempt=1, queue="default", count=4, priority=1000, at_s=stage.now_s)
        stage.change("old", {}, {ADMITTED: unsigned.text()})
        async with stage.scheduler():
            await stage.turn()
            gang = stage.world.gangs["default/old"]
            assert gang.state.stage is GangStage.RUNNING
            assert gang.record is not None
            assert (gang.record.seats, gang.record.priority) == (2, 0)
            assert stage.phase("old") is Phase.RUNNING

    clockwork.run(scene())


def test_a_bare_pod_forges_nothing() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        made = pod("p", job="t", min_available="3")
        made["spec"]["nodeName"] = "n1"
        made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), ADMITTED: FORGED.text()}
        stage.put(made)
        async with stage.scheduler():
            await stage.turn()
            assert stage.world.gangs["default/t"].waits

    clockwork.run(scene())


def test_starts_from_before_there_was_a_key_are_gone_on_with() -> None:
    """After the update from a version that did not sign: but no Job that was created since."""
    key = RecordKey(secret=b"k" * 32, since_s=950.0)
    unsigned = StartRecord(attempt=1, queue="default", count=4, at_s=900.0)
    assert key.verify(unsigned, "u", created_s=890.0)
    assert not key.verify(unsigned, "u", created_s=960.0)
    assert not key.verify(StartRecord(attempt=1, queue="default", count=4, at_s=960.0), "u", created_s=890.0)
    signed = key.sign(unsigned, "u")
    assert key.verify(signed, "u", created_s=960.0)
    assert not key.verify(signed, "v", created_s=960.0)
    assert not key.verify(signed, "v", created_s=890.0)  # a signature that is there must be right
    assert read_start_record({ADMITTED: signed.text()}) == signed


def test_what_is_bound_carries_its_own_signature() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(*(pod(f"p{i}", job="t", min_available="2") for i in range(2)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
        for i in range(2):
            meta = stage.api.objects[PODS][f"default/p{i}"]["metadata"]
            record = read_start_record(meta["annotations"])
            assert record is not None
            assert stage.key.verify(record, meta["uid"], created_s=4e9)
        async with stage.scheduler():
            await stage.turn()
            assert not stage.world.gangs["default/t"].waits

    clockwork.run(scene())


def test_what_a_user_asked_for_while_nobody_scheduled_is_within_his_quota() -> None:
    """A Job that runs is given more pods by its user: they are no part of the start that is taken up again."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {"quotas": [{"limit": {"cpu": 4}}]}})
        stage.put(job("a", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
        stage.change("a", {"parallelism": 8, "completions": 8})
        async with stage.scheduler():
            for _ in range(20):
                await stage.turn()
            assert len(stage.api.bound()) == 4

    clockwork.run(scene())


class Starting:
    """An API server that has just started: it has not read all roles, and refuses what it will allow soon."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.secret = refusals, {"metadata": {"name": "phalanx-records"}}

    async def get(self, *_: object) -> Object:
        if self.refusals:
            self.refusals -= 1
            raise ApiRefusal(403, "Forbidden", 'RBAC: clusterrole.rbac.authorization.k8s.io "phalanx" not found')
        return self.secret

    async def replace(self, kind: Kind, body: Object) -> Object:
        self.secret = body
        return body

    async def request(self, *_: object, **__: object) -> Object:
        await self.get()
        return {"items": []}


def test_an_api_server_that_has_just_started_is_asked_again() -> None:
    """Else the process would lead for ever with no key, and without looking up what it was refused once."""

    async def scene() -> None:
        server: Any = Starting(2)
        first = await obtain_record_key(server, lambda: 7.0)
        assert first is not None
        assert first == await obtain_record_key(server, lambda: 8.0), "made once"
        assert await obtain_record_key(Starting(99), lambda: 7.0) is None  # type: ignore[arg-type]  # a double
        assert await _serves(Starting(2), LIMIT_RANGES, patient=True)  # type: ignore[arg-type]  # a double
        assert not await _serves(Starting(99), LIMIT_RANGES, patient=True)  # type: ignore[arg-type]  # a double

    clockwork.run(scene())
