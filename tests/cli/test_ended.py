"""`cli/views/job/ended.py`: how jobs ended, as their objects say it."""

from __future__ import annotations

from typing import Any

from phalanx.cli.views.job import reading
from tests.cli.test_job_reading import CREATED, batch_job, foreign_pod, meta, node, queue, snapshot


def ended_pod(name: str, phase: str, code: int, at: str, **labels: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    ended = {"terminated": {"exitCode": code, "finishedAt": at}}
    return {
        "kind": "Pod",
        "metadata": meta(name, labels={"phalanx.dev/queue": "default", **labels}),
        "spec": {"nodeName": "n1", "schedulerName": "phalanx", "containers": [container]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": ended}]},
    }


async def test_where_the_job_controller_does_not_say_how_the_pod_does() -> None:
    failed = batch_job("bad", 1, "1")
    entry = {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}
    failed["status"] = {"conditions": [entry]}
    one = ended_pod("bad-0", "Failed", 7, "2026-01-01T00:00:10Z")
    one["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": failed["metadata"]["uid"], "controller": True}]
    [view] = reading.views(snapshot(queue("default"), failed, one), finished=True)
    assert view.where() == "Job has reached the specified backoff limit; pod bad-0: exit code 7"


async def test_a_gang_of_pods_of_which_one_runs_is_not_over() -> None:
    over = ended_pod("driver", "Succeeded", 0, CREATED, **{"phalanx.dev/job": "spark"})
    runs = foreign_pod("worker", "n1", "1")
    runs["metadata"] = meta("worker", labels=over["metadata"]["labels"])
    runs["spec"]["schedulerName"] = "phalanx"
    found = reading.views(snapshot(node("n1"), queue("default"), over, runs), finished=True)
    assert not {view.state for view in found} & {"complete", "failed"}


async def test_a_job_that_its_time_limit_ended_says_so() -> None:
    late = batch_job("train", 1, "1")
    late["spec"]["activeDeadlineSeconds"] = 90
    failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "lastTransitionTime": CREATED}
    late["status"] = {"conditions": [failed | {"message": "Job was active longer than specified deadline"}]}
    [view] = reading.views(snapshot(node("n1"), queue("default"), late), finished=True)
    assert (view.state, view.where()) == ("failed", "it reached its time limit (1m30s) and was ended")


async def test_an_object_that_cannot_be_read_hides_no_other() -> None:
    def ended(name: str, conditions: object) -> dict[str, Any]:
        return {**batch_job(name, 1, "1"), "status": {"conditions": conditions}}

    odd = (
        5,
        [None],
        [{"type": {}, "status": "True"}],
        [{"type": "Complete", "status": "True", "lastTransitionTime": {}}],
    )
    objects = [ended(f"odd{number}", each) for number, each in enumerate(odd)]
    good = ended("good", [{"type": "Complete", "status": "True", "lastTransitionTime": CREATED}])
    found = reading.views(snapshot(queue("default"), *objects, good), finished=True)
    assert [view.id for view in found if view.state == "complete"] == ["default/good"]
