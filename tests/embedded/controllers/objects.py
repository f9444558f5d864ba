"""Jobs and pods as the API server hands them out, in as few words as a test needs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.job.decide import JobStep, Pace, Streak, decide
from phalanx.embedded.controllers.job.track import Done, Track, settle, track
from phalanx.embedded.controllers.job.view import view_of
from phalanx.embedded.controllers.runtime.pod_state import INDEX, INDEX_FAILURES, TRACKING, is_tracked, uid_of

NOW_S = 1_800_000_000.0
_numbers = itertools.count()


def job(*, status: dict[str, Any] | None = None, deleting: bool = False, **spec: Any) -> Object:
    """A Job `ns/j` of three pods at once, defaulted as the server does."""
    meta: dict[str, Any] = {"name": "j", "namespace": "ns", "uid": "job-uid", "resourceVersion": "1", "generation": 1}
    if deleting:
        meta["deletionTimestamp"] = write_moment(NOW_S)
    template = {"metadata": {"labels": {"job-name": "j"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    template["spec"]["restartPolicy"] = spec.pop("restartPolicy", "Never")
    filled = {"parallelism": 3, "completions": 3, "backoffLimit": 6, "template": template} | spec
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": "job-uid"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"selector": selector} | {key: value for key, value in filled.items() if value is not None},
        "status": status or {},
    }


def pod(
    phase: str = "Running",
    *,
    index: int | None = None,
    failures: int | None = None,
    tracked: bool = True,
    ready: bool = False,
    deleting: bool = False,
    exit_code: int | None = None,
    ended_s: float = NOW_S - 1000,
    node: str = "n",
    name: str = "",
    **status: Any,
) -> Object:
    """A pod of that Job. `ended_s` is when a finished one ended."""
    name = name or f"p{next(_numbers)}"
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}
    meta["creationTimestamp"] = write_moment(NOW_S - 2000)
    meta["labels"] = {"batch.kubernetes.io/controller-uid": "job-uid"}
    if tracked:
        meta["finalizers"] = [TRACKING]
    if deleting:
        meta["deletionTimestamp"] = write_moment(NOW_S)
    if index is not None:
        meta["annotations"] = {INDEX: str(index)}
        if failures is not None:
            meta["annotations"][INDEX_FAILURES] = str(failures)
    found: dict[str, Any] = {"phase": phase, **status}
    if ready:
        found["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": write_moment(NOW_S - 10)}]
    if phase in {"Succeeded", "Failed"}:
        code = exit_code if exit_code is not None else int(phase == "Failed")
        end = {"exitCode": code, "finishedAt": write_moment(ended_s)}
        found["containerStatuses"] = [{"name": "c", "restartCount": 0, "state": {"terminated": end}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": node}, "status": found}


def looked_at(the_job: Object, pods: Sequence[Object], streak: Streak | None = None, now_s: float = NOW_S) -> JobStep:
    """What is decided at one look."""
    view = view_of(the_job, pods)
    return decide(view, (streak or Streak()).after(view.new_succeeded, view.new_failed), Pace(), now_s)


def tracked_after(the_job: Object, pods: Sequence[Object], **done: int) -> Track:
    """The first status after one look; every deletion and creation worked unless `done` says otherwise."""
    view, step = view_of(the_job, pods), looked_at(the_job, pods)
    worked = {"deleted": len(step.delete), "created": len(step.create)} | done
    return track(view, step, Done(**worked), NOW_S)


def settled(the_job: Object, pods: Sequence[Object], **done: int) -> dict[str, Any]:
    """The last status after one look in which every finalizer could be removed."""
    tracked = tracked_after(the_job, pods, **done)
    kept = {uid_of(one) for one in pods if is_tracked(one)} - {uid_of(one) for one in tracked.release}
    status: dict[str, Any] = settle(tracked, kept, the_job["spec"], NOW_S)[0]
    return status


def conditions(status: dict[str, Any]) -> list[str]:
    """`Type=Status Reason` in order."""
    return [f"{one['type']}={one['status']} {one['reason']}" for one in status.get("conditions", ())]


def names(pods: Sequence[Object]) -> list[str]:
    return [one["metadata"]["name"] for one in pods]
