"""Build the copy of a job for a worker, find the manager and the job of a copy, and compute the status that is copied
back to the job.

A copy has the name and the namespace of its job. The labels of the copy contain the job's uid, the manager's uid and
the time of the start. So the manager recognizes a copy that was made for an earlier start of the job. The pod templates
are those that the user wrote, without the changes that the manager made at the start. In the worker, the copy is queued
according to the labels of the job. The pods of the copy also have the label with the job's uid, so that the manager
does not count them as pods of the worker's own jobs.

`Sent` describes a job whose start record names another cluster."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from phalanx.client.kind import PODS, Kind
from phalanx.client.moment import MomentError, read_moment, write_moment
from phalanx.clusters.copies.sendable import SENDABLE, Key, Sendable
from phalanx.dialects.frame.dialect import CLUSTER
from phalanx.dialects.job_kinds.form import difference, nested, patched
from phalanx.kube.gang.effects import Member
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.read import labels
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.workload.adapter import WorkloadChange, merge_changes
from phalanx.kube.read.workload.batch_job import BatchJob, original_template

Object = Mapping[str, Any]

JOB = "phalanx.dev/origin-uid"  # label of a copy; its value is the uid of the job
START = "phalanx.dev/origin-start"  # label of a copy; its value identifies the start of the job
MANAGER = "phalanx.dev/origin-manager"  # label of a copy; its value is the uid of the manager's namespace kube-system
MADE = "phalanx.dev/origin-time"  # annotation of a copy: the time of its creation, by the manager's clock
_NOT_COPIED = frozenset(
    {*labels.WRITTEN, labels.USER, labels.CLUSTER_CHOICE, "kubectl.kubernetes.io/last-applied-configuration"}
)
_BY_ROLE = (f"{labels.PARALLELISM}.", f"{labels.TEMPLATE}.")
_TOKENS = "kube-api-access-"  # the name prefix of the token volumes that admission on the manager adds
_OF_PODS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", labels.JOB_NAME)


def start_of(record: StartRecord) -> str:
    """Return a text that identifies a start: it differs between the starts of a job."""
    return f"{record.attempt}-{round(record.at_s * 1000)}"


def body(
    sendable: Sendable,
    obj: Object,
    roles: Sequence[BatchJob],
    record: StartRecord,
    manager: str,
    origin: str,
    *,
    made_s: float,
    renamed: bool = False,
) -> dict[str, Any]:
    """Return the copy of an object. `roles`: the roles of this object; empty for a bare pod. `made_s`: the current
    time, in seconds since the epoch. `renamed`: True if Phalanx does not run in the worker, so that the pods of the
    copy must not name Phalanx as their scheduler."""
    kind, meta = sendable.kind, obj["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
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
            "annotations": {
                **{k: v for k, v in (meta.get("annotations") or {}).items() if _is_copied(k)},
                MADE: write_moment(made_s),
            },
        },
        "spec": _spec(sendable, obj, roles, renamed) if roles else _pod_spec(obj, renamed),
    }


def _is_copied(annotation: str) -> bool:
    return annotation not in _NOT_COPIED and not annotation.startswith(_BY_ROLE)


def _pod_spec(obj: Object, renamed: bool) -> dict[str, object]:
    """Return the spec of the copy of a bare pod. Fields that admission on the manager has set are left out, because
    admission in the worker sets them again."""
    spec = copy.deepcopy(dict(obj["spec"]))
    for name in ("nodeName", "priority", "preemptionPolicy", "serviceAccount"):
        spec.pop(name, None)
    if renamed and spec.get("schedulerName") == labels.SCHEDULER_NAME:
        del spec["schedulerName"]
    tokens = [one["name"] for one in spec.get("volumes") or () if one["name"].startswith(_TOKENS)]
    spec["volumes"] = [one for one in spec.get("volumes") or () if one["name"] not in tokens]
    for each in (*spec["containers"], *(spec.get("initContainers") or ())):
        each["volumeMounts"] = [one for one in each.get("volumeMounts") or () if one["name"] not in tokens]
    return spec


def _spec(sendable: Sendable, obj: Object, roles: Sequence[BatchJob], renamed: bool) -> dict[str, object]:
    spec = copy.deepcopy(dict(obj["spec"]))
    changes = [WorkloadChange(job.adapter, _of_user(job, job.adapter.read(dict(obj)), renamed), {}) for job in roles]
    patch, _ = merge_changes({**obj, "spec": spec}, changes)
    spec = patched(spec, patch)
    for path in (sendable.managed, *sendable.own):
        spec = patched(spec, nested(path, None))
    return spec


def _of_user(job: BatchJob, shown: Object, renamed: bool) -> dict[str, object]:
    """Return the merge patch that reverts the changes of the start on the manager, and adds the label with the job's
    uid to the pods."""
    spec = shown["spec"]
    own = original_template(shown["metadata"], spec["template"])
    meta = {k: v for k, v in (own.get("metadata") or {}).items() if k != "creationTimestamp"}
    said = {k: v for k, v in (meta.get("labels") or {}).items() if k not in _OF_PODS}
    meta["labels"] = {**said, JOB: job.object_uid}
    pod = dict(own.get("spec") or {})
    if renamed and pod.get("schedulerName") == labels.SCHEDULER_NAME:
        del pod["schedulerName"]
    selector = {k: v for k, v in (pod.get("nodeSelector") or {}).items() if k != CLUSTER}
    wanted = {"metadata": meta, "spec": {**pod, "nodeSelector": selector or None}}
    patch: dict[str, Any] = {"suspend": True, "template": difference(spec["template"], wanted)}
    if job.requested_parallelism != spec.get("parallelism", 1):
        patch["parallelism"] = job.requested_parallelism
    if job.active_s != spec.get("activeDeadlineSeconds"):
        patch["activeDeadlineSeconds"] = job.active_s
    return patch


def is_of(copied: Object, manager: str) -> bool:
    """Return True if the object is a copy that the manager with the uid `manager` has made."""
    return bool(manager) and _label(copied, MANAGER) == manager


def is_of_start(copied: Object, uid: str, start: str) -> bool:
    """Return True if the object is the copy for the start `start` of the job with the uid `uid`."""
    return _label(copied, JOB) == uid and _label(copied, START) == start


def uid_of(copied: Object) -> str:
    """Return the uid of the job of which this is a copy."""
    return _label(copied, JOB)


def _label(obj: Object, key: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(key) or "")


def made_s(copied: Object, start: StartRecord) -> float:
    """Return when the copy was made, by the manager's clock (seconds since the epoch). Copies that an earlier version
    made do not have this time; for these, return the time of the start."""
    try:
        return read_moment((copied["metadata"].get("annotations") or {}).get(MADE))
    except MomentError:
        return start.at_s


def status_to_write(sendable: Sendable, job: Object, copied: Object) -> dict[str, object] | None:
    """Return a merge patch for the job's status if its copy has started or ended; otherwise None. Other changes are not
    written, so that few writes are made for each job."""
    if sendable.is_over(job):
        return None
    if not sendable.is_over(copied) and (not sendable.has_started(copied) or sendable.runs(job.get("status") or {})):
        return None
    return _change(sendable, job, sendable.status_of(copied)) or None


def status_to_clear(sendable: Sendable, job: Object) -> dict[str, Any] | None:
    """Return a merge patch that clears the status of a job that was suspended again; None if there is nothing to
    clear."""
    if not sendable.is_suspended(job) or sendable.is_over(job):
        return None
    status, names = job.get("status") or {}, ("startTime", "active", "ready", "terminating")
    cleared = {name: value for name, value in status.items() if value and (name in names or not sendable.copied)}
    return _emptied(cleared) or None


def _emptied(value: object) -> Any:
    """Return the merge patch that empties a value. Lists and mappings become empty but are not removed, because the
    definition of a kind may require these fields."""
    if isinstance(value, dict):
        patches = {name: _emptied(each) for name, each in value.items() if each not in (None, [])}
        return {name: patch for name, patch in patches.items() if patch != {}}
    return [] if isinstance(value, list) else None


def _change(sendable: Sendable, job: Object, new: dict[str, object]) -> dict[str, object]:
    """Return a merge patch for the job's status. It replaces the fields that are copied from the status of the copy."""
    old = sendable.status_of(job)
    gone = dict.fromkeys([name for name in old if name not in new])
    replaced = {name: _whole(old.get(name), value) for name, value in new.items() if old.get(name) != value}
    return {**gone, **replaced}


def _whole(old: object, new: object) -> object:
    """Return the value in a merge patch that changes a field from `old` to `new`."""
    return difference(old, new) if isinstance(old, dict) and isinstance(new, dict) else new


def sent_to(job: Object) -> tuple[str, ...]:
    """Return the clusters that may have a copy of the job."""
    return tuple(str((job["metadata"].get("annotations") or {}).get(labels.SENT_TO) or "").split())


class Sent(NamedTuple):
    """A job that is meant for another cluster. `gang`: the id of its gang. `members`: the roles of the job's object;
    for a bare pod, only the pod itself."""

    gang: str
    kind: Kind
    uid: str
    members: tuple[Member, ...]
    record: StartRecord

    @property
    def sendable(self) -> Sendable:
        return SENDABLE[self.kind]

    @property
    def roles(self) -> tuple[BatchJob, ...]:
        return tuple(one for one in self.members if isinstance(one, BatchJob))

    @property
    def cluster(self) -> str:
        return self.record.cluster

    @property
    def start(self) -> str:
        return start_of(self.record)

    def same(self, other: Sent | None) -> bool:
        """Return whether `other` describes the same start of the same job as this value."""
        return other is not None and (self.uid, self.start) == (other.uid, other.start)


def sent_of(gang: GangLifecycle, record: StartRecord) -> Iterator[tuple[Key, Sent]]:
    """Yield the objects of a gang that is meant for another cluster. Bare pods that do not have the start record
    `record` are left out."""
    found: dict[Key, list[BatchJob]] = {}
    for job in gang.objects.jobs.values():
        if job.sent and not job.finished and job.adapter.kind in SENDABLE:
            found.setdefault(Key(job.adapter.kind, job.key), []).append(job)
    for key, roles in found.items():
        yield key, Sent(gang.id, key.kind, roles[0].object_uid, tuple(roles), record)
    for pod in gang.objects.pods.values():
        known = pod.record
        if known is not None and start_of(known) == start_of(record) and gang.objects.job_of(pod) is None:
            yield Key(PODS, pod.key), Sent(gang.id, PODS, pod.uid, (pod,), record)


def waits_elsewhere(gang: GangLifecycle, objects: Mapping[Kind, Mapping[str, Any]]) -> bool:
    """Return whether the gang is meant for another cluster, and that cluster runs none of its objects yet. `objects`:
    the objects of the manager, by kind and `namespace/name`."""
    record = gang.elsewhere
    found = [] if record is None else list(sent_of(gang, record))
    return bool(found) and not any(
        sent.sendable.runs((objects.get(key.kind, {}).get(key.name) or {}).get("status") or {}) for key, sent in found
    )
