"""A Workload that exists before its job, which names it (`kueue.x-k8s.io/prebuilt-workload-name`).

The job waits until there is a Workload of that name that is no other's, and takes it over: it becomes its owner. From
then on it is answered in that Workload, whose priority and longest time count. Where the two ask for different pods the
Workload is declared finished (OutOfSync), and the job does not start. A Workload that is deleted stops its job.

What the Workload leaves out of its containers may be anything: the server fills in defaults of a Job, not of those.

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
    """Return why a job with that uid cannot start with the Workload that it names; None: the Workload is its own."""
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
    """Why it is declared finished; empty: it is not."""
    listed = (workload.get("status") or {}).get("conditions") or ()
    found = (str(one.get("reason")) for one in listed if one.get("type") == "Finished" and one.get("status") == "True")
    return next(found, "")


def is_owned(workload: Mapping[str, Any], uid: str) -> bool:
    """Return whether an object with that uid owns the Workload."""
    return any(one.get("uid") == uid for one in workload["metadata"].get("ownerReferences") or ())


def is_of_another(workload: Mapping[str, Any], uids: Iterable[str]) -> bool:
    """Return whether an object with none of these uids controls the Workload."""
    owners = workload["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one.get("uid") not in uids for one in owners)


def is_in_sync(workload: Mapping[str, Any], pod_sets: Sequence[PodSet], options: Mapping[str, str]) -> bool:
    """Return whether a Workload asks for the pods that its job asks for, and for as long."""
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
    """Return whether `own` has all that is said; lists are as long."""
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
