"""A job that has started and of which a pod cannot start is stuck, and says which pod and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.cli.cluster.jobs.attending import why_stuck
from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.cluster.jobs.output import Followed
from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.live_state.silent_pods import with_causes
from phalanx.cli.commands.status.jobs import JobFilter
from phalanx.cli.views.job import job_page, reading
from phalanx.cli.views.job.job_view import short_row, wide_row
from phalanx.client.connection import Connection
from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.kube.read.wire import epoch_s
from tests.cli.test_job_reading import CREATED, NOW_S, batch_job, find, node, queue, snapshot, started_pod


async def test_a_pod_that_cannot_start_its_container_says_why() -> None:
    job = batch_job("web", 1, "1")
    job["spec"]["suspend"] = False
    pod = started_pod(job, "n1", {"waiting": {"reason": "ErrImagePull", "message": "no such image"}})
    seen = snapshot(node("n1"), queue("default"), job, pod)
    page = job_page.page(find(seen, "web", "default"), seen)
    assert "web-0: pending on n1\n    container main: ErrImagePull: no such image" in page


def started_job(*pods: dict[str, Any]) -> Snapshot:
    """A started job with two pods, and the state of its pods."""
    job = batch_job("web", 2, "1")
    job["spec"]["suspend"] = False
    admitted = '{"attempt":1,"queue":"default","count":2,"at_s":1767225600.0}'
    job["metadata"]["annotations"] = {"phalanx.dev/admitted": admitted}
    for number, pod in enumerate(pods):
        pod["metadata"]["name"] = f"web-{number}"
        pod["metadata"]["ownerReferences"][0]["uid"] = job["metadata"]["uid"]
    return snapshot(node("n1"), queue("default"), job, *pods)


def waiting_pod(reason: str, message: str = "") -> dict[str, Any]:
    return started_pod(batch_job("web", 2, "1"), "n1", {"waiting": {"reason": reason, "message": message}})


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", "no such image"),
        ("ImagePullBackOff", 'Back-off pulling image "x"'),
        ("InvalidImageName", "couldn't parse image name"),
        ("CreateContainerConfigError", 'secret "late" not found'),
        ("CreateContainerError", "no space left"),
        ("RunContainerError", "no such program"),
        ("CrashLoopBackOff", "back-off 10s restarting failed container"),
        ("ContainerCreating", 'configmap "late" not found'),  # a missing volume, in the message of Phalanx's node
    ],
)
async def test_a_job_of_which_a_pod_cannot_start_is_stuck_and_says_which_and_why(reason: str, message: str) -> None:
    running = started_pod(batch_job("web", 2, "1"), "n1", {"running": {}})
    seen = started_job(running, waiting_pod(reason, message))
    [view] = reading.views(seen)
    cause = f"pod web-1, container main: {reason}: {message}"
    assert short_row(view.row(None, NOW_S), NOW_S, with_namespace=False)[2:] == ["stuck", "2/2", "2m10s", cause]
    assert (view.record()["state"], view.record()["message"]) == ("stuck", cause)
    assert f"web: stuck for 2m10s, queue default\n  {cause}. The job keeps its nodes" in job_page.page(view, seen)
    assert JobFilter(state=("stuck",)).of([view], ()) == [view]
    assert JobFilter(state=("running",)).of([view], ()) == []
    assert (
        wide_row(replace(view, limit_s=600.0).row(None, NOW_S), NOW_S, with_namespace=False)[8] == "7m50s"
    )  # its limit counts


async def test_a_stuck_job_counts_its_other_pods_that_cannot_start_and_names_init_containers() -> None:
    first = waiting_pod("PodInitializing")
    waits = {"waiting": {"reason": "ErrImagePull", "message": "no\nsuch image"}}
    first["status"]["initContainerStatuses"] = [{"name": "prepare", "state": waits}]
    [view] = reading.views(started_job(first, waiting_pod("CrashLoopBackOff")))
    assert view.where() == ("pod web-0, container prepare: ErrImagePull: no such image; 1 more pod cannot start either")


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
async def test_a_job_whose_containers_are_on_their_way_is_not_stuck(reason: str) -> None:
    [view] = reading.views(started_job(waiting_pod(reason), waiting_pod(reason)))
    assert view.state == "running"


async def test_a_pod_that_is_gone_does_not_keep_its_job_stuck() -> None:
    job = batch_job("web", 1, "1")
    job["spec"]["suspend"] = False
    job["status"] = {"active": 1}
    pod = started_pod(job, "n1", {"waiting": {"reason": "ErrImagePull"}})
    found = FoundJob(kind="job", namespace="default", name="web", members=(Member(kind=JOBS, obj=job),))
    followed = Followed(Connection("http://nowhere", headers={}, tls=None), found)
    followed._see(Change(kind=PODS, old=None, new=pod))
    assert followed.standing.state == "stuck"
    followed._see(Change(kind=PODS, old=pod, new=None))
    assert followed.standing.state == "running"


def event(reason: str, at: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": CREATED},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        **more,
    }


MOUNT = 'MountVolume.SetUp failed for volume "settings" : configmap "late" not found'


async def test_jobs_asks_for_the_events_of_pods_that_do_not_start() -> None:
    job = batch_job("web", 1, "1")
    job["spec"]["suspend"] = False
    pod = waiting_pod("ContainerCreating")
    pod["status"]["phase"] = "Pending"
    running = started_pod(batch_job("other", 1, "1"), "n1", {"running": {}})
    asked: list[str] = []

    class Server:
        async def list(self, kind: Kind, namespace: str, **params: str) -> dict[str, Any]:
            asked.append(f"{namespace} {kind.plural} {params}")
            return {"items": [event("FailedMount", "2026-01-01T00:05:00Z", MOUNT)]}

    server: Any = Server()
    pods = {"default/web-0": pod, "default/other-0": running}
    late = await with_causes(server, pods, NOW_S)
    assert asked == [f"default events {{'fieldSelector': 'involvedObject.uid={pod['metadata']['uid']}'}}"]
    assert [why_stuck([each]) for each in late.values()] == [f"pod web-0, container main: FailedMount: {MOUNT}", ""]
    assert await with_causes(server, pods, epoch_s(CREATED) + 5) == pods
