"""Find the gang of a pod, and compute the status of its PodGroup.

A label of the pod names a PodGroup in the pod's namespace. As soon as `minMember` pods of the PodGroup exist, these
pods start together. Pods that are created later start one by one. A group with the old label `min-available` needs no
PodGroup object.

The status is the same that the controller of scheduler-plugins writes. It has the numbers of pods with the label, and a
phase. The phase goes through `Pending`, `Scheduling` and `Running` to `Finished` or `Failed`, which are final.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from phalanx.client.moment import created_s
from phalanx.dialects.frame.dialect import Answer, Claim, GangView, GroupClaim, Object, Objects, Said, no_pod_group
from phalanx.dialects.frame.pod_requests import amounts
from phalanx.dialects.kube_scheduler.scheduler_plugins import kinds
from phalanx.dialects.kube_scheduler.scheduler_plugins.quotas import QuotaDefinitions
from phalanx.model.pod import PODS
from phalanx.model.reason import Reason, ReasonCode

_OURS = "phalanx.dev/"
_QUEUE, _JOB, _MIN = (f"{_OURS}{word}" for word in ("queue", "job", "min-available"))
_NOTHING: Mapping[str, str] = {}
_MARK = f"{kinds.GROUP}:"  # a prefix that cannot occur in the name of a Job or pod
OBJECT = f"{kinds.GROUP}/pod-group"  # the option that contains the name of a pod's PodGroup
_FINAL = frozenset({"Finished", "Failed"})
_LABELS = frozenset(kinds.GROUP_LABELS)
_SCHEDULERS = frozenset({kinds.SCHEDULER_NAME, kinds.DEFAULT_SCHEDULER})


def options_of(meta: Mapping[str, Any], scheduler: str) -> Mapping[str, str]:
    """Return the Phalanx options of a pod; empty if the pod has another scheduler and no PodGroup. A pod with Phalanx's
    own scheduler name may belong to a PodGroup, but it belongs to no ElasticQuota."""
    labels = meta.get("labels") or _NOTHING
    known_scheduler = scheduler in _SCHEDULERS
    if not known_scheduler and _LABELS.isdisjoint(labels):  # this is the case for nearly every pod
        return _NOTHING
    group = next((str(labels[key]) for key in kinds.GROUP_LABELS if labels.get(key)), "")
    if _JOB in labels or not (group or known_scheduler) or not (known_scheduler or scheduler == "phalanx"):
        return _NOTHING
    found = {_QUEUE: kinds.tree_quota(str(meta.get("namespace") or "default"))}
    if group:
        found |= {_JOB: _MARK + group, OBJECT: group}
        if minimum := labels.get(kinds.MIN_LABEL):
            found[_MIN] = str(minimum)
    return found


def claim(defined: QuotaDefinitions, said: Said, objects: Objects) -> Claim | None:
    """Return the settings of a gang from the ElasticQuota of its namespace and from its PodGroup; None if the gang does
    not belong to this dialect."""
    group, has_quota = said.options.get(OBJECT, ""), kinds.is_quota(said.queue)
    if not has_quota:
        return None
    within = said.namespace in defined.quotas
    queue = said.queue if within else ""
    if within and (unknown := defined.unknown(said.asks)):
        text = f"the min of no ElasticQuota names {', '.join(unknown)}, so no pod of the namespace may request it"
        return Claim(queue=queue, blocked=Reason(code=ReasonCode.QUEUE_LIMIT, text=text))
    if not group or (_MIN in said.options and _object(objects, said.namespace, group) is None):
        return Claim(queue=queue, silent=not queue and not group)
    found = _object(objects, said.namespace, group)
    if found is None:
        return Claim(queue=queue, blocked=no_pod_group(group))
    if whole := _waited_for(found):
        whole_group = GroupClaim(minimum=_minimum(found), whole=whole)
        return Claim(queue=queue, group=whole_group, submitted_s=created_s(found))
    return Claim(queue=queue, options={_MIN: str(_minimum(found))}, submitted_s=created_s(found))


def gang_of(group: Object) -> str:
    """Return the id of the gang that a PodGroup's pods form."""
    meta = group.get("metadata") or _NOTHING
    return f"{meta.get('namespace')}/{_MARK}{meta.get('name')}"


def answer(told: GangView, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of a gang's PodGroup. `now`: the present time as a metav1.Time."""
    key = f"{told.namespace}/{told.options.get(OBJECT, '')}"
    if (group := objects.get(kinds.POD_GROUPS, {}).get(key)) is not None:
        yield Answer(kind=kinds.POD_GROUPS, key=key, status=_status(group, told.owners, now))


def statuses(everyone: Iterable[GangView], objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the status of PodGroups without pods."""
    with_pods = {f"{told.namespace}/{told.options.get(OBJECT, '')}" for told in everyone}
    for key, group in objects.get(kinds.POD_GROUPS, {}).items():
        if key not in with_pods:
            yield Answer(kind=kinds.POD_GROUPS, key=key, status=_status(group, (), now))


# --- internal ---------------------------------------------------------------------------------------------------------


def _object(objects: Objects, namespace: str, group: str) -> Object | None:
    return objects.get(kinds.POD_GROUPS, {}).get(f"{namespace}/{group}")


def _minimum(group: Object) -> int:
    said = (group.get("spec") or {}).get("minMember")
    return said if isinstance(said, int) and said > 0 else 1


def _waited_for(group: Object) -> Mapping[str, int]:
    """Return the minResources of a group, which are the amounts that must be free when the group starts. If they exceed
    the requests of the existing pods, the difference is reserved for later pods for some time."""
    return {name: each for name, each in amounts((group.get("spec") or {}).get("minResources")).items() if name != PODS}


def _status(group: Object, pods: Iterable[Object], now: str) -> Object:
    """Return the status of a group with these pods. It equals the status that the controller of scheduler-plugins would
    have written after its last step. It contains the time at which the group first had its minimum number of pods."""
    old = group.get("status") or {}
    if old.get("phase") in _FINAL:
        return old
    existing = list(pods)
    phases = [str((pod.get("status") or {}).get("phase") or "") for pod in existing]
    running, succeeded, failed = (phases.count(name) for name in ("Running", "Succeeded", "Failed"))
    counts = {"running": running, "succeeded": succeeded, "failed": failed}
    owner = str(old.get("occupiedBy") or "") or (_occupier(existing[0]) if len(existing) >= _minimum(group) else "")
    status: Object = {"phase": _phase(_minimum(group), len(existing), running, succeeded, failed)}
    if status["phase"] != "Pending" or "scheduleStartTime" in old:
        status["scheduleStartTime"] = old.get("scheduleStartTime") or now
    return status | ({"occupiedBy": owner} if owner else {}) | {name: count for name, count in counts.items() if count}


def _phase(minimum: int, existing: int, running: int, succeeded: int, failed: int) -> str:
    if existing < minimum:
        return "Pending"
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    return "Running" if running + succeeded >= minimum else "Scheduling"


def _occupier(pod: Object) -> str:
    """Return the names of the pod's owners. (The field's documentation says UID, but scheduler-plugins writes
    names.)"""
    meta = pod["metadata"]
    names = sorted(f"{meta.get('namespace')}/{owner['name']}" for owner in meta.get("ownerReferences") or ())
    return ",".join(names)
