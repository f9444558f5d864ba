"""`cli/cluster/jobs/attending.py`: why a job ended as it did, or cannot go on, in words, from its objects."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.cli.cluster.jobs.attending import is_silent, why_stuck, with_events
from tests.cli.test_job_reading import CREATED
from tests.cli.test_stuck import MOUNT, event, waiting_pod


async def test_pods_that_end_or_wait_for_a_node_do_not_make_a_job_stuck() -> None:
    going, failed, nowhere = (waiting_pod("ErrImagePull", "no such image") for _ in range(3))
    going["metadata"]["deletionTimestamp"] = CREATED
    failed["status"]["phase"] = "Failed"
    del nowhere["spec"]["nodeName"]
    assert [why_stuck([pod]) for pod in (going, failed, nowhere)] == ["", "", ""]


ATTACH = 'AttachVolume.Attach failed for volume "pv-1" : rpc error: volume is in use'


SANDBOX = 'Failed to create pod sandbox: plugin type="calico" failed (add): no IP addresses left'


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([event("Scheduled", ""), event("FailedMount", "2026-01-01T00:05:00Z", MOUNT)], f"FailedMount: {MOUNT}"),
        ([event("FailedAttachVolume", "2026-01-01T00:05:00Z", ATTACH)], f"FailedAttachVolume: {ATTACH}"),
        ([event("FailedCreatePodSandBox", "2026-01-01T00:05:00Z", SANDBOX)], f"FailedCreatePodSandBox: {SANDBOX}"),
        (  # it was mended
            [event("Pulling", "2026-01-01T00:06:00Z"), event("FailedMount", "2026-01-01T00:05:00Z", MOUNT)],
            "",
        ),
        (  # an event of events.k8s.io/v1 that repeats
            [
                event("SuccessfulAttachVolume", "2026-01-01T00:06:00Z"),
                event("FailedMount", "", MOUNT, series={"lastObservedTime": "2026-01-01T00:07:00.5Z"}),
            ],
            f"FailedMount: {MOUNT}",
        ),
        ([], ""),
    ],
)
async def test_the_last_event_of_a_kubelet_says_why_a_pod_is_still_being_created(
    events: list[dict[str, Any]], cause: str
) -> None:
    """The objects of a real kubelet: the container waits in `ContainerCreating` and says no more."""
    pod = waiting_pod("ContainerCreating")
    pod["status"]["phase"] = "Pending"
    assert is_silent(pod)
    told = with_events(pod, events)
    assert why_stuck([told]) == (f"pod {pod['metadata']['name']}, container main: {cause}" if cause else "")
    assert is_silent(told) is not bool(cause)
    unseen = {**pod, "status": {"phase": "Pending"}}  # the kubelet has not written a status of the container yet
    assert why_stuck([with_events(unseen, events)]) == why_stuck([told])
