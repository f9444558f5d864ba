"""Delete Workloads and jobs whose retention has ended (`objectRetentionPolicies` of Kueue's Configuration).

`afterFinished` deletes finished Workloads; their jobs stay. `afterDeactivatedByKueue` deletes jobs whose Workloads were
deactivated by a rule (longest time, rejected checks), not by a user. The garbage collector deletes these Workloads.


Source: pkg/controller/core/workload_controller.go and pkg/controller/jobframework/reconciler.go of v0.20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.client.kind import JOBS, Kind
from phalanx.client.moment import read_moment
from phalanx.dialects.frame.dialect import Answer, Object, Objects
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.conditions import Conditions
from phalanx.dialects.kueue.tree.configuration import KueueConfiguration

_BY_KUEUE = "DeactivatedDueTo"
_JOB_KINDS: Mapping[tuple[str, str], Kind] = {(kind.api_version, kind.name): kind for kind in (JOBS, *FRAMEWORKS)}


def retained(settings: KueueConfiguration, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the deletions that are due, and when the next one is due."""
    if settings.finished_s is None and settings.deactivated_s is None:
        return
    now_s, later = read_moment(now), list[tuple[float, str]]()
    for key, workload in objects.get(kinds.WORKLOADS, {}).items():
        if (due_s := _due_s(settings, workload)) is None:
            continue
        if due_s > now_s:
            later.append((due_s, key))
        else:
            yield from _deletions(key, workload)
    if later:
        due_s, key = min(later)
        yield Answer(kind=kinds.WORKLOADS, key=key, again_s=due_s)


def is_finished(workload: Object) -> bool:
    """Return whether the Workload has the condition Finished."""
    return Conditions((workload.get("status") or {}).get("conditions") or (), "").is_true("Finished")


def _due_s(settings: KueueConfiguration, workload: Object) -> float | None:
    """Return when the retention of the Workload ends (seconds since the epoch); None: it does not end."""
    said = Conditions((workload.get("status") or {}).get("conditions") or (), "")
    if said.is_true("Finished"):
        return _after(said.since("Finished"), settings.finished_s)
    inactive = (workload.get("spec") or {}).get("active") is False
    if inactive and said.is_true("Evicted") and said.reason("Evicted").startswith(_BY_KUEUE):
        return _after(said.since("Evicted"), settings.deactivated_s)
    return None


def _after(since: str, retention_s: float | None) -> float | None:
    return read_moment(since) + retention_s if since and retention_s is not None else None


def _deletions(key: str, workload: Object) -> Iterator[Answer]:
    """Yield the deletion of a finished Workload, or of the jobs of a deactivated one."""
    if is_finished(workload):
        yield Answer(kind=kinds.WORKLOADS, key=key, gone=True)
        return
    for owner in workload["metadata"].get("ownerReferences") or ():
        kind = _JOB_KINDS.get((str(owner.get("apiVersion")), str(owner.get("kind"))))
        if kind is not None:
            yield Answer(kind=kind, key=f"{key.partition('/')[0]}/{owner['name']}", gone=True, uid=str(owner["uid"]))
