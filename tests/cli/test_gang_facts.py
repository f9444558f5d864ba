"""`cli/views/job/gang_facts.py`: facts of a live job that its gang and its objects have."""

from __future__ import annotations

from phalanx.cli.views.job.gang_facts import created_object, effective_limit_s, state_since_s
from phalanx.kube.read.wire import epoch_s
from tests.cli.test_job_reading import CREATED_S, batch_job, foreign_pod, meta, node, queue, snapshot

SUSPENDED_AT = "2026-01-01T00:01:00Z"


async def test_a_job_that_waits_again_waits_since_its_last_suspension() -> None:
    again, new = batch_job("again", 1, "100"), batch_job("new", 1, "100")
    again["status"] = {"conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": SUSPENDED_AT}]}
    seen = snapshot(node("n1"), queue("default"), again, new)
    assert state_since_s(seen, seen.cluster.jobs["default/again"]) == epoch_s(SUSPENDED_AT)
    assert state_since_s(seen, seen.cluster.jobs["default/new"]) == CREATED_S


async def test_time_limit_of_a_waiting_job_is_its_own() -> None:
    own = batch_job("own", 1, "1")
    own["metadata"]["annotations"] = {"phalanx.dev/time-limit": "5m"}
    seen = snapshot(node("n1"), queue("default"), own, batch_job("other", 1, "1"))
    assert effective_limit_s(seen, seen.cluster.jobs["default/own"]) == 300
    assert effective_limit_s(seen, seen.cluster.jobs["default/other"]) is None


async def test_gang_of_bare_pods_has_the_kind_gang_and_a_job_its_own() -> None:
    pod = foreign_pod("g-0", "n1", "1")
    pod |= {"metadata": meta("g-0", annotations={"phalanx.dev/queue": "default", "phalanx.dev/job": "app"})}
    pod |= {"spec": {"schedulerName": "phalanx", "containers": pod["spec"]["containers"]}, "status": {}}
    seen = snapshot(node("n1"), queue("default"), pod, batch_job("train", 1, "1"))
    assert created_object(seen, "default/app") == ("Gang", "")
    assert created_object(seen, "default/train") == ("Job", "")
