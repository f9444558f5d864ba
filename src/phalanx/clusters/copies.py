"""The copy of a Job in a worker: its content, whose it is, and the status that it gives back.

A copy has the name and the namespace of its Job. Labels have the Job's uid, the manager's uid, and the time of the
start, so that a copy of an earlier start is recognized. The template is the user's, without the changes of the start on
the manager, and the worker queues the copy by the labels of the Job.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from phalanx.dialects.frame.dialect import CLUSTER
from phalanx.kube.read import labels
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob, original_template

Object = Mapping[str, Any]

JOB = "phalanx.dev/origin-uid"  # the uid of the Job
START = "phalanx.dev/origin-start"  # the time of its start
MANAGER = "phalanx.dev/origin-manager"  # the uid of the manager's namespace kube-system
_NOT_COPIED = frozenset({*labels.WRITTEN, labels.USER, "kubectl.kubernetes.io/last-applied-configuration"})
_OF_PODS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", labels.JOB_NAME)
_COPIED: Final = (
    *("startTime", "completionTime", "active", "ready", "terminating", "succeeded", "failed", "conditions"),
    *("completedIndexes", "failedIndexes"),
)


def start_of(record: StartRecord) -> str:
    """Return the text that tells one start of a Job from another."""
    return f"{record.attempt}-{round(record.at_s * 1000)}"


def body(job: Object, read: BatchJob, record: StartRecord, manager: str, origin: str) -> dict[str, Any]:
    """Return the copy of a Job. `read`: the same Job as it was read."""
    meta = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": {
                **(meta.get("labels") or {}),
                labels.ORIGIN: origin,
                JOB: str(meta["uid"]),
                START: start_of(record),
                MANAGER: manager,
            },
            "annotations": {k: v for k, v in (meta.get("annotations") or {}).items() if k not in _NOT_COPIED},
        },
        "spec": _spec(job, read),
    }


def _spec(job: Object, read: BatchJob) -> dict[str, Any]:
    spec = copy.deepcopy(dict(job["spec"]))
    for name in ("selector", "manualSelector", "managedBy", "activeDeadlineSeconds", "template"):
        spec.pop(name, None)
    template = copy.deepcopy(dict(original_template(job["metadata"], job["spec"]["template"])))
    meta = dict(template.get("metadata") or {})
    meta["labels"] = {k: v for k, v in (meta.get("labels") or {}).items() if k not in _OF_PODS}
    meta.pop("creationTimestamp", None)
    pod = dict(template["spec"])
    selector = {k: v for k, v in (pod.get("nodeSelector") or {}).items() if k != CLUSTER}
    pod = {name: value for name, value in {**pod, "nodeSelector": selector or None}.items() if value is not None}
    limit = {} if read.active_s is None else {"activeDeadlineSeconds": read.active_s}
    counts = {"parallelism": read.requested_parallelism}
    return {**spec, **counts, **limit, "suspend": True, "template": {"metadata": meta, "spec": pod}}


def is_of(copied: Object, manager: str) -> bool:
    """Return whether the object is a copy that this manager made."""
    return bool(manager) and _label(copied, MANAGER) == manager


def is_of_start(copied: Object, uid: str, start: str) -> bool:
    """Return whether the object is the copy of this start of the Job with this uid."""
    return _label(copied, JOB) == uid and _label(copied, START) == start


def uid_of(copied: Object) -> str:
    """Return the uid of the Job of which this is a copy."""
    return _label(copied, JOB)


def _label(obj: Object, key: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(key) or "")


def is_over(job: Object) -> bool:
    """Return whether a Job has ended."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def status_to_write(job: Object, copied: Object) -> dict[str, Any] | None:
    """Return a merge patch of the Job's status, when its copy has started or ended; None: nothing is to be written.
    Numbers of pods that change in between are not written, so that a job costs few writes."""
    old, new = job.get("status") or {}, copied.get("status") or {}
    started = new.get("startTime") and not copied["spec"].get("suspend")
    if is_over(job) or not (is_over(copied) or (started and not old.get("startTime"))):
        return None
    return {name: new.get(name) for name in _COPIED if new.get(name) != old.get(name)}


def status_to_clear(job: Object) -> dict[str, Any] | None:
    """Return a merge patch of the status of a Job that was suspended again; None: there is nothing to clear."""
    status = job.get("status") or {}
    names = [name for name in ("startTime", "active", "ready", "terminating") if status.get(name)]
    return dict.fromkeys(names) if job["spec"].get("suspend") and not is_over(job) and names else None


def sent_to(job: Object) -> tuple[str, ...]:
    """Return the clusters that may have a copy of the Job."""
    return tuple(str((job["metadata"].get("annotations") or {}).get(labels.SENT_TO) or "").split())
