"""`cli/views/queue_view.py`: build the row of a queue from a snapshot."""

from __future__ import annotations

from fractions import Fraction

from phalanx.cli.views import queue_view
from phalanx.cli.views.job import reading
from phalanx.model.status import ResourceUsage
from tests.cli.test_job_reading import batch_job, node, queue, snapshot, started_pod
from tests.kube.test_queue_status import standing


async def test_a_job_for_an_unknown_queue_says_so() -> None:
    seen = snapshot(node("n1"), queue("default"), batch_job("train", 1, "1", queue="nowhere"))
    [view] = reading.views(seen)
    assert view.reason is not None
    assert (view.reason.code, "nowhere" in view.reason.text) == ("QueueUnknown", True)
    [missing] = [queue_view.row(one) for one in queue_view.views(seen) if not one.exists]
    assert missing[:5] == ["nowhere", "0", "1", "0.00", "does not exist"]


async def test_queues_are_shown_as_a_tree_with_what_they_use_and_what_waits() -> None:
    lab = queue("lab") | {"spec": {"quotas": [{"guaranteed": {"cpu": "4"}, "limit": {"cpu": 8}}]}}
    vision = queue("vision") | {"spec": {"parent": "lab", "gang": False, "state": "held"}}
    astray = queue("astray") | {"spec": {"parent": "nowhere"}}
    running = batch_job("train", 1, "1500m", queue="lab")
    running["spec"]["suspend"] = False
    record = '{"attempt":1,"queue":"lab","count":1,"at_s":1767225600.0}'
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": record}
    pod = started_pod(running, "n1", {"running": {}})
    seen = snapshot(node("n1"), queue("default"), lab, vision, astray, running, pod, batch_job("b", 1, "1"))
    rows = [queue_view.row(view) for view in queue_view.views(seen)]
    assert rows == [
        ["astray", "0", "0", "0.00", "misconfigured: the parent 'nowhere' of queue 'astray' does not exist", "nothing"],
        ["default", "0", "1", "0.00", "open", "nothing"],
        ["lab", "1", "0", "0.00", "open", "cpu 1.5/4/8"],
        ["  vision", "0", "0", "0.00", "held, pod by pod", "nothing"],
    ]
    [record_of_lab] = [view.record() for view in queue_view.views(seen) if view.standing.queue == "lab"]
    [cpu] = [one for one in record_of_lab["usage"] if one["resource"] == "cpu"]
    assert cpu == {
        "flavor": "",
        "resource": "cpu",
        "used": 1500,
        "guaranteed": 4000,
        "limit": 8000,
        "borrowed": 0,
        "lendable": 2500,
    }


async def test_what_runs_in_a_queue_that_was_deleted_is_still_shown_as_used() -> None:
    running = batch_job("train", 1, "1500m", queue="gone")
    running["spec"]["suspend"] = False
    record = '{"attempt":1,"queue":"gone","count":1,"at_s":1767225600.0}'
    running["metadata"]["annotations"] = {"phalanx.dev/admitted": record}
    pod = started_pod(running, "n1", {"running": {}})
    seen = snapshot(node("n1"), queue("default"), running, pod, batch_job("b", 1, "1", queue="gone"))
    [gone] = [queue_view.row(view) for view in queue_view.views(seen) if not view.exists]
    assert gone == ["gone", "1", "1", "0.00", "does not exist", "cpu 1.5"]


def test_a_part_of_a_gpu_is_a_number_in_the_record() -> None:
    half = ResourceUsage(flavor="", resource="nvidia.com/gpu", used=Fraction(1, 2), guaranteed=2)
    view = queue_view.QueueView(standing=standing(usage=(half,)), gang=True, exists=True, wrong="")
    [usage] = view.record()["usage"]
    assert (usage["used"], type(usage["used"]), usage["guaranteed"], usage["limit"]) == (0.5, float, 2, None)
