"""A prebuilt Workload: it exists before its job, which names it (`kueue.x-k8s.io/prebuilt-workload-name`).

The job waits until a Workload of that name exists and has no other owner. Then the job becomes its owner, and the
Workload's priority and maximum execution time count. If the two describe different pods, the Workload is finished as
OutOfSync, and the job does not start. Deleting the Workload stops its job. Container fields that the Workload leaves
out are not compared, because the server adds defaults to a Job but not to a Workload.


Sources: pkg/controller/jobframework/{reconciler,utils}.go, pkg/util/equality/podset.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phalanx.client.quantity import QuantityError, parse
from phalanx.dialects.frame.dialect import Object, PodSet
from phalanx.dialects.kueue.gangs import MAX_EXECUTION
from phalanx.model.reason import Reason, ReasonCode

OUT_OF_SYNC = "The prebuilt workload is out of sync with its user job"
_ALIKE = ("initContainers", "containers")
_AMOUNTS = frozenset({"requests", "limits"})


def obstacle(name: str, uid: str, workload: Object | None) -> Reason | None:
    """Return why a job cannot start with its prebuilt Workload; None if the job owns the Workload. `uid`: the job's
    uid."""
    if workload is None:
        return _reason(f"it waits for the prebuilt Workload {name}, which does not exist")
    if not is_owned(workload, uid):
        if is_of_another(workload, (uid,)):
            return _reason(f"the prebuilt Workload {name} belongs to another job")
        return _reason(f"it waits for the prebuilt Workload {name}, which it has not taken over yet")
    done = _finished(workload)
    return _reason(f"the prebuilt Workload {name} is finished: {done}") if done else None


def _reason(text: str) -> Reason:
    return Reason(code=ReasonCode.HELD, text=text, numbers={"by": "prebuilt"})


def _finished(workload: Mapping[str, Any]) -> str:
    """Return the reason of the condition Finished; empty if the Workload is not finished."""
    listed = (workload.get("status") or {}).get("conditions") or ()
    found = (str(one.get("reason")) for one in listed if one.get("type") == "Finished" and one.get("status") == "True")
    return next(found, "")


def is_owned(workload: Mapping[str, Any], uid: str) -> bool:
    """Return whether the object with this uid owns the Workload."""
    return any(one.get("uid") == uid for one in workload["metadata"].get("ownerReferences") or ())


def is_of_another(workload: Mapping[str, Any], uids: Iterable[str]) -> bool:
    """Return whether the Workload's controller has none of these uids."""
    owners = workload["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one.get("uid") not in uids for one in owners)


def is_in_sync(workload: Mapping[str, Any], pod_sets: Sequence[PodSet], options: Mapping[str, str]) -> bool:
    """Return whether a Workload has the same pods and the same maximum execution time as its job."""
    spec = workload.get("spec") or {}
    limit = spec.get("maximumExecutionTimeSeconds")
    sets = spec.get("podSets") or ()
    return (
        (str(limit) if limit is not None else "") == str(options.get(MAX_EXECUTION, ""))
        and len(sets) == len(pod_sets)
        and all(_is_alike(one, own) for one, own in zip(sets, pod_sets, strict=True))
    )


def _is_alike(said: Mapping[str, Any], own: PodSet) -> bool:
    fewer = own.minimum if own.minimum < own.count else None
    if int(said.get("count", 1)) != own.count or said.get("minCount") != fewer:
        return False
    theirs, ours = (said.get("template") or {}).get("spec") or {}, own.template.get("spec") or {}
    return all(_says(theirs.get(key) or [], ours.get(key) or []) for key in _ALIKE)


def _says(said: Any, own: Any, *, amount: bool = False) -> bool:
    """Return whether `own` has all fields of `said`, with equal values. Lists must have the same length. `amount`: True
    if the values are quantities, which may be written differently."""
    if isinstance(said, Mapping) and isinstance(own, Mapping):
        return all(key in own and _says(each, own[key], amount=amount or key in _AMOUNTS) for key, each in said.items())
    if isinstance(said, list) and isinstance(own, list):
        return len(said) == len(own) and all(_says(*pair, amount=amount) for pair in zip(said, own, strict=True))
    if amount:
        try:
            return bool(parse(said) == parse(own))
        except QuantityError:
            return False
    return bool(said == own)
