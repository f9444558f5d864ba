"""`cli/views/job/job_page.py`: the page of one job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.cli.views.job import job_page, job_view, reading
from phalanx.cli.views.job.job_view import short_row
from tests.cli.test_ended import ended_pod
from tests.cli.test_job_reading import (
    CREATED,
    CREATED_S,
    NOW_S,
    batch_job,
    find,
    meta,
    node,
    queue,
    snapshot,
    started_pod,
)

_QUOTAS = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": "9"}]}]
KUEUE = (
    {"kind": "ResourceFlavor", "metadata": meta("any", ""), "spec": {}},
    {
        "kind": "ClusterQueue",
        "metadata": meta("team", ""),
        "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": _QUOTAS}]},
    },
    {"kind": "LocalQueue", "metadata": meta("l"), "spec": {"clusterQueue": "team"}},
)


@pytest.fixture
def one_job() -> job_view.JobView:
    return reading.views(snapshot(node("n1"), queue("default"), batch_job("train", 2, "2")))[0]


async def test_a_job_that_gave_way_says_how_often_and_for_whom() -> None:
    pushed = batch_job("train", 2, "4")
    mark = '{"by": "default/owner", "start_s": 1767225600.0}'
    pushed["metadata"]["annotations"] = {"phalanx.dev/preempted": mark, "phalanx.dev/preemptions": "2"}
    seen = snapshot(node("n1"), queue("default"), pushed, batch_job("calm", 2, "4"))
    view = find(seen, "train", "default")
    assert "preempted\n  2 times, last for default/owner\n" in job_page.page(view, seen)
    assert view.record()["preempted"] == {"times": 2, "by": "default/owner"}
    assert "preempted" not in job_page.page(find(seen, "calm", "default"), seen)


async def test_a_job_that_waits_again_is_queued_since_it_was_suspended() -> None:
    pushed = batch_job("train", 2, "4")
    suspended = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"}
    pushed["status"] = {"conditions": [suspended]}
    seen = snapshot(node("n1"), queue("default"), pushed, batch_job("calm", 2, "4"))
    view = find(seen, "train", "default")
    assert (view.record()["submitted"], view.record()["since"]) == (CREATED, "2026-01-01T00:02:00Z")
    assert job_page.page(view, seen).startswith("default/train: queued for 10s, submitted 2m10s ago, queue default\n")
    assert job_page.page(find(seen, "calm", "default"), seen).startswith("default/calm: queued for 2m10s, queue")


async def test_a_job_on_many_nodes_names_a_few(one_job: job_view.JobView) -> None:
    assert replace(one_job, nodes={"a": 4, "b": 1}, soon=False).where() == "a x4, b"
    many = {f"n{number}": 1 for number in range(10)}
    assert replace(one_job, nodes=many, soon=False).where() == "n0, n1, n2 and 7 more nodes"


async def test_jobs_of_other_namespaces_are_shown_only_when_asked_for() -> None:
    seen = snapshot(queue("default"), batch_job("a", 1, "1"), batch_job("b", 1, "1", namespace="team"))
    assert [view.id for view in reading.views(seen, "team")] == ["team/b"]
    assert len(reading.views(seen)) == 2


async def test_a_failed_job_says_how_it_failed_when_finished_ones_are_asked_for() -> None:
    failed = batch_job("train", 1, "1")
    condition = {"type": "Failed", "status": "True", "message": "too bad", "lastTransitionTime": CREATED}
    failed["status"] = {"conditions": [condition]}
    seen = snapshot(queue("default"), failed)
    assert reading.views(seen) == []
    [view] = reading.views(seen, finished=True)
    assert (view.state, view.where()) == ("failed", "too bad")


async def test_a_finished_job_with_kueues_label_alone_is_shown_with_the_queue_it_had() -> None:
    def labelled(name: str, **labels: str) -> dict[str, Any]:
        obj = batch_job(name, 1, "1")
        obj["metadata"]["labels"] = labels
        return obj

    objects = [labelled(name, **{"kueue.x-k8s.io/queue-name": "l"}) for name in ("runs", "ended")]
    objects += [labelled("foreign"), batch_job("ours", 1, "1")]
    done = {"type": "Complete", "status": "True", "lastTransitionTime": CREATED}
    for obj in objects[1:]:
        obj["status"] = {"conditions": [done]}
    seen = snapshot(queue("default"), *KUEUE, *objects, dialects=frozenset({"kueue"}))
    [waits] = reading.views(seen)
    found = {view.id: view for view in reading.views(seen, finished=True)}
    assert sorted(found) == ["default/ended", "default/ours", "default/runs"]
    assert found["default/ended"].queue == waits.queue != "default"
    assert found["default/ended"].state == "complete"


async def test_a_failed_job_says_in_one_line_or_on_its_page_how_its_pod_ended() -> None:
    failed = batch_job("bad", 1, "1")
    how = "container main: exit code 7; its log ends:\n  Traceback\n  ValueError: no"
    message = f"Job has reached the specified backoff limit; pod bad-0: {how}"
    failed["status"] = {"conditions": [{"type": "Failed", "status": "True", "message": message}]}
    seen = snapshot(queue("default"), failed)
    [view] = reading.views(seen, finished=True)
    assert view.where() == "pod bad-0: container main: exit code 7: ValueError: no"
    assert "  pod bad-0: container main: exit code 7; its log ends:\n    Traceback\n" in job_page.page(view, seen)


async def test_pods_without_a_job_are_shown_when_they_are_over_too() -> None:
    driver = ended_pod("driver", "Succeeded", 0, "2026-01-01T00:02:00Z", **{"phalanx.dev/job": "spark"})
    worker = ended_pod("worker", "Failed", 3, "2026-01-01T00:01:00Z", **{"phalanx.dev/job": "spark"})
    lone = ended_pod("lone", "Succeeded", 0, "2026-01-01T00:00:30Z")
    seen = snapshot(node("n1"), queue("default"), driver, worker, lone)
    gang, single = reading.views(seen, finished=True)
    assert (gang.id, gang.state, gang.where(), gang.since_s) == (
        "default/spark",
        "failed",
        "worker: exit code 3",
        CREATED_S + 120,
    )
    assert (single.id, single.state, single.nodes) == ("default/pod:lone", "complete", {"n1": 1})
    assert find(seen, "lone", "default") == single
    assert "complete for 1m40s, queue default" in job_page.page(single, seen)


async def test_the_page_of_a_job_tells_reason_roles_and_place() -> None:
    seen = snapshot(node("n1"), queue("default"), batch_job("first", 1, "100"), batch_job("second", 2, "100"))
    page = job_page.page(find(seen, "second", "default"), seen)
    assert "default/second: queued for 2m10s, queue default" in page
    assert "NeverFits: a pod of role second asks 100 cpu, but the largest node has 4" in page
    assert "second: 2 x (100 cpu), start together" in page
    assert "2 of 2 waiting jobs in queue default, after default/first" in page


@pytest.mark.parametrize(
    ("size", "more"),
    [("elastic", "more follow as capacity and quota allow"), ("fixed-at-start", "it keeps this size until it starts")],
)
async def test_a_job_that_runs_with_fewer_pods_than_it_asks_says_so(size: str, more: str) -> None:
    train = batch_job("train", 3, "1")
    train["metadata"]["annotations"] = {
        "phalanx.dev/min-available": "1",
        "phalanx.dev/size": size,
        "phalanx.dev/admitted": '{"attempt": 1, "queue": "default", "count": 1, "at_s": 1767225600.0}',
        "phalanx.dev/parallelism": "1 of 3",
    }
    train["spec"] |= {"suspend": False, "parallelism": 1}
    train["status"] = {"startTime": CREATED}
    seen = snapshot(node("n1"), queue("default"), train, started_pod(train, "n1", {"running": {}}))
    page = job_page.page(find(seen, "train", "default"), seen)
    assert f"It runs with 1 of its 3 pods (minimum 1); {more}" in page


async def test_the_page_says_when_a_job_is_expected_to_start() -> None:
    running = batch_job("train", 1, "4")
    running["spec"] |= {"suspend": False, "activeDeadlineSeconds": 3730}
    record = '{"attempt":1,"queue":"default","count":1,"at_s":1767225600.0}'
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": record}
    pod = started_pod(running, "n1", {"running": {}})
    seen = snapshot(node("n1"), queue("default"), running, pod, batch_job("next", 1, "1"))
    view = find(seen, "next", "default")
    page = job_page.page(view, seen)
    assert "enough is expected back by 01:02:10 UTC" in page  # the reason and the forecast say the same
    assert "expected start\n  in 1h at the latest (01:02:10 UTC), when default/train ends" in page
    assert job_page.whole_record(view, seen)["expected_start"] == {
        "at": "2026-01-01T01:02:10Z",
        "likely": ["2026-01-01T01:02:10Z", "2026-01-01T01:02:10Z"],
        "nearly_sure": ["2026-01-01T01:02:10Z", "2026-01-01T01:02:10Z"],
        "latest": "2026-01-01T01:02:10Z",
        "after": "default/train",
    }
    assert job_page.whole_record(find(seen, "train", "default"), seen)["expected_start"] is None


def ended_job(number: int, run_min: int) -> dict[str, Any]:
    """Return a job that started at midnight and ran for the given minutes."""
    over = batch_job(f"train-{number}", 1, "4")
    over["spec"] |= {"suspend": False, "activeDeadlineSeconds": 7200}
    over["metadata"]["annotations"] = {"phalanx.dev/admitted": ADMITTED_AT_MIDNIGHT}
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": f"2026-01-01T00:{run_min:02}:00Z"}
    over["status"] = {"conditions": [complete]}
    return over


ADMITTED_AT_MIDNIGHT = '{"attempt":1,"queue":"default","count":1,"at_s":1767225600.0}'


async def test_finished_jobs_say_when_a_waiting_one_is_expected_to_start() -> None:
    running = batch_job("train-9", 1, "4")
    running["spec"] |= {"suspend": False, "activeDeadlineSeconds": 7200}
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": ADMITTED_AT_MIDNIGHT}
    pod = started_pod(running, "n1", {"running": {}})
    ended = [ended_job(number, run_min) for number, run_min in enumerate((20, 21, 22, 23, 24, 25, 26))]
    seen = snapshot(node("n1"), queue("default"), running, pod, batch_job("next", 1, "1"), *ended)
    view = find(seen, "next", "default")
    page = job_page.page(view, seen)
    assert "expected start\n  expected 00:21–00:25 UTC (with a probability of 50 %)\n" in page
    assert "in 1h57m at the latest (02:00:00 UTC), when default/train-9 ends" in page
    told = job_page.whole_record(view, seen)["expected_start"]
    assert told["nearly_sure"][0] < told["likely"][0] < told["at"] < told["likely"][1] < told["nearly_sure"][1]
    assert told["nearly_sure"][1] < told["latest"] == "2026-01-01T02:00:00Z"
    expected = reading.expected_starts(reading.views(seen), seen)
    assert list(expected) == ["default/next"]
    row = short_row(view.row(expected["default/next"], NOW_S), NOW_S, with_namespace=False)
    assert row[-1].startswith("expected 00:21–00:25 UTC; the largest free node has 0 of the 1 cpu asked")


async def test_the_page_of_a_running_job_says_when_its_time_limit_ends_it() -> None:
    running, waiting = batch_job("train", 1, "4"), batch_job("next", 1, "1")
    running["spec"] |= {"suspend": False, "activeDeadlineSeconds": 3730}
    record = '{"attempt":1,"queue":"default","count":1,"at_s":1767225600.0}'
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": record}
    waiting["metadata"]["annotations"] = {"phalanx.dev/time-limit": "1-12"}
    seen = snapshot(node("n1"), queue("default"), running, started_pod(running, "n1", {"running": {}}), waiting)
    [train, queued] = [find(seen, name, "default") for name in ("train", "next")]
    assert "time limit\n  1h2m, so it is ended at 01:02:10 UTC" in job_page.page(train, seen)
    assert "time limit\n  1d12h\n" in job_page.page(queued, seen)
    assert (train.record()["time_limit_s"], queued.record()["time_limit_s"]) == (3730.0, 129_600.0)
