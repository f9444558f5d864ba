"""`clusters/sending/sending_cluster.py` and `sent_jobs.py`: the jobs that are sent, and whose copies are followed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from phalanx.client.kind import JOBS, NODES
from phalanx.clusters.copies import content
from phalanx.clusters.copies.content import Sent
from phalanx.clusters.copies.sendable import Key
from phalanx.clusters.sending.sending_cluster import SendingCluster
from phalanx.clusters.sending.sent_jobs import SentJobs
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.stages import Waiting
from phalanx.kube.read.records import StartRecord
from phalanx.kube.world.capacity_sources import ManagerWorld
from tests.kube.gang.recorded_effects import running

KEY = Key(JOBS, "default/j")
RECORD = StartRecord(attempt=1, queue="default", count=2, at_s=100.0, cluster="east")


def sent_gang() -> GangLifecycle:
    """Return a gang of one Job that cluster east runs."""
    _, gang = running()
    assert gang.state.parts is not None
    gang.state.parts.start.record = RECORD
    gang.see_job(replace(gang.objects.jobs["j"], sent=True))
    return gang


def copied(manager: str = "m", uid: str = "j", start: str = "") -> dict[str, Any]:
    labels = {content.MANAGER: manager, content.JOB: uid, content.START: start or content.start_of(RECORD)}
    return {"metadata": {"labels": labels}}


def test_a_copy_is_present_if_it_is_of_this_manager_job_and_start() -> None:
    informers: Any = None
    manager, sent = SendingCluster(informers, informers), Sent("default/j", JOBS, "j", (), RECORD)
    assert not manager.is_present(copied(""), sent), "the manager's uid is not known yet"
    manager.uid = "m"
    assert manager.is_present(copied(), sent)
    assert manager.has_made(copied(uid="other"))
    for other in (copied("n"), copied(uid="other"), copied(start="2-1")):
        assert not manager.is_present(other, sent)


def test_only_kinds_that_can_be_sent_are_followed_each_once() -> None:
    subscribed = list[str]()
    objects = {"default/j": {"metadata": {"name": "j"}}}

    def informer(kind: Any) -> Any:
        return SimpleNamespace(objects=objects, subscribe=lambda changed: subscribed.append(kind.name))

    api: Any = None
    manager = SendingCluster(api, informer)
    assert manager.job(KEY) is None, "the kind is not followed yet"
    manager.world = ManagerWorld(kinds=lambda: (JOBS, NODES))
    manager.follow(lambda change: None)
    manager.follow(lambda change: None)
    assert subscribed == ["Job", "Pod"]
    assert manager.job(KEY) == objects["default/j"]


def test_a_job_is_reconciled_when_its_start_begins_and_when_it_is_over() -> None:
    put = list[Key]()
    keys: Any = SimpleNamespace(put=put.append)
    sent, gang = SentJobs(keys), sent_gang()
    sent.see(gang)
    assert put == [KEY]
    assert sent.in_cluster("east") == [KEY]
    assert sent.in_cluster("west") == []
    assert sent.resources() == {"cpu", "pods"}
    sent.see(gang)
    assert put == [KEY], "nothing has changed"
    gang.enter(Waiting())
    sent.see(gang)
    assert put == [KEY, KEY]
    assert sent.get(KEY) is None
