"""Rows of `phalanx jobs`: the wide ones, and which jobs are chosen in which order."""

from __future__ import annotations

from dataclasses import replace

from phalanx.cli.commands.status.jobs import JobFilter
from phalanx.cli.views.job import reading
from phalanx.cli.views.job.job_view import wide_row
from tests.cli.test_job_reading import NOW_S, batch_job, node, queue, snapshot


async def test_the_wide_row_says_who_how_much_and_how_long() -> None:
    limited = batch_job("train", 2, "1")
    [container] = limited["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1", "nvidia.com/gpu": "4"}, "limits": {"nvidia.com/gpu": "4"}}
    limited["metadata"]["annotations"] = {"phalanx.dev/time-limit": "1h", "phalanx.dev/user": "ada"}
    seen = snapshot(node("n1"), queue("default"), limited)
    [view] = reading.views(seen)
    cells = wide_row(view.row(None, NOW_S), NOW_S, with_namespace=False)
    assert cells[:10] == ["train", "ada", "default", "queued", "0/2", "8", cells[6], cells[7], "1h", ""]
    assert "4 nvidia.com/gpu" in cells[6]
    running = replace(view, state="running", since_s=NOW_S - 600)
    assert wide_row(running.row(None, NOW_S), NOW_S, with_namespace=False)[8] == "50m"


async def test_jobs_are_chosen_by_time_and_ordered() -> None:
    jobs = [batch_job(name, pods, "1") for name, pods in (("b", 1), ("a", 2))]
    jobs[0]["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    found = reading.views(snapshot(node("n1"), queue("default"), *jobs))
    assert [view.name for view in JobFilter(sort="name").of(found, ())] == ["a", "b"]
    assert [view.name for view in JobFilter(sort="submitted").of(found, ())] == ["b", "a"]
    assert [view.name for view in JobFilter(since="2021-01-01").of(found, ())] == ["a"]
