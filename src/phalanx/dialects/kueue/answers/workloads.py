"""Compute the Workload of a job, which is the object that Kueue's users, tools and dashboards read.

Kueue's scheduler admits Workloads. In Phalanx, Workloads only show the scheduler's decisions about jobs. A Workload has
the name, owner, pod sets and conditions that Kueue would give it. If a user changes a field of a Workload that users
may change, Phalanx reads the new value (`dialect`). `workload_status` computes the status.

Sources: pkg/controller/jobframework/reconciler.go, pkg/workload/workload.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from phalanx.client.moment import read_moment
from phalanx.dialects.frame.dialect import Answer, GangStage, GangView, Object, Objects, PodSet
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.answers import topology
from phalanx.dialects.kueue.answers.conditions import Conditions
from phalanx.dialects.kueue.answers.names import IS_GROUP, key_of, serving_set
from phalanx.dialects.kueue.answers.topology import topology_request
from phalanx.dialects.kueue.answers.workload_status import PAST, TARGET, UNSPOKEN, workload_status
from phalanx.dialects.kueue.provisioning import requests as provisioned
from phalanx.dialects.kueue.provisioning.requests import REJECTED
from phalanx.dialects.kueue.tree import checks, claims
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions
from phalanx.dialects.kueue.tree.workload import status_of, workload_of
from phalanx.model.reason import ReasonCode

_GROUP = "phalanx.dev/job"
_LIMIT = f"{kinds.PREFIX}max-exec-time-seconds"
_JOB_UID = f"{kinds.PREFIX}job-uid"


def deactivated(told: GangView) -> bool:
    """Return whether the gang's Workload is deactivated. A user deactivates it, or its maximum execution time has
    passed."""
    reason = told.reason
    return told.stage is GangStage.WAITING and reason is not None and reason.numbers.get("by") == "deactivated"


def incomplete(told: GangView) -> bool:
    """Return whether the gang has no Workload yet. A pod group gets its Workload when no pod is missing any more and
    the scheduler has tried the group. A gang whose pods cannot be read gets no Workload."""
    if told.stage is not GangStage.WAITING or not told.pod_sets:
        return told.stage is GangStage.WAITING
    return told.kind == "PodGroup" and (told.reason is None or told.reason.code is ReasonCode.WAITING_FOR_MEMBERS)


def waits_for_room(told: GangView) -> bool:
    """Return True if the gang waits because the scheduler has tried it and could not start it."""
    return told.stage is GangStage.WAITING and told.reason is not None and told.reason.code not in UNSPOKEN


def answers(defined: KueueDefinitions, told: GangView, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the answers for the Workload of a gang. If the job names a prebuilt Workload, the job first becomes the
    owner of that Workload."""
    told = provisioned.reserved(told)
    if told.stage is GangStage.FINISHED and defined.configuration.finished_s is not None:
        existing = objects.get(kinds.WORKLOADS, {}).get(key_of(defined, told))
        if existing is None:
            return  # the Workload was deleted at the end of its retention time
    if gangs.PREBUILT not in told.options:
        yield from with_requests(defined, told, objects, workload(defined, told, objects, now))
        return
    key = key_of(defined, told)
    existing, uids = objects.get(kinds.WORKLOADS, {}).get(key), [each["metadata"]["uid"] for each in told.owners]
    if existing is None or claims.is_of_another(workload_of(existing), uids):
        return
    status, taken = existing.get("status") or {}, claims.is_owned(workload_of(existing), uids[0])
    if not taken and not claims.is_in_sync(workload_of(existing), told.pod_sets, told.options):
        said = Conditions(status.get("conditions") or (), now, 1)
        said.set("Finished", True, "OutOfSync", claims.OUT_OF_SYNC)
        yield Answer(kind=kinds.WORKLOADS, key=key, status={**status, "conditions": said.all()})
    if not taken:
        own = _owners(told)
        listed = [one for one in existing["metadata"].get("ownerReferences") or () if one.get("uid") not in uids]
        metadata = {"ownerReferences": [*listed, *own], "labels": {_JOB_UID: uids[0]}}
        yield Answer(kind=kinds.WORKLOADS, key=key, metadata=metadata)
    elif told.stage is not GangStage.WAITING or not Conditions(status.get("conditions") or (), now).is_true("Finished"):
        yield from with_requests(defined, told, objects, replace(workload(defined, told, objects, now), body=None))


def with_requests(defined: KueueDefinitions, told: GangView, objects: Objects, answer: Answer) -> Iterator[Answer]:
    """Yield the answer for a gang's Workload and the answers for its ProvisioningRequests."""
    yield answer
    existing = objects.get(kinds.WORKLOADS, {}).get(answer.key)
    known = objects.get(kinds.PROVISIONING_REQUESTS, {})
    if existing is None or not (known or defined.provisioning):
        return
    listed = (answer.status or {}).get("admissionChecks") or ()
    flavors = {flavor.name: flavor for flavor in defined.flavors}
    yield from provisioned.answers(defined.provisioning, told, existing, listed, known, flavors)


def workload(defined: KueueDefinitions, told: GangView, objects: Objects, now: str) -> Answer:
    """Return the desired Workload of a gang. `objects`: the existing objects. `now`: the present time as a
    metav1.Time."""
    key = key_of(defined, told)
    existing = objects.get(kinds.WORKLOADS, {}).get(key) or {}
    old = existing.get("status") or {}
    requests = objects.get(kinds.PROVISIONING_REQUESTS, {})
    status, check_s = workload_status(defined, told, old, requests, now)
    end_s, again_s = _end_s(told, existing, status), _again_s(status)
    if again_s is not None and read_moment(now) >= again_s:
        del status["requeueState"]
        again_s = None
    over = end_s is not None and read_moment(now) >= end_s
    why = ("MaximumExecutionTimeExceeded", "exceeding the maximum execution time") if over else _rejected(told, status)
    if why is not None:
        said = Conditions(status["conditions"], now, 1)
        said.set(TARGET, True, *why)
        status["conditions"] = said.all()
    body = _body(defined, told)
    spec = topology.changes(told, existing, body["spec"]) if existing and gangs.PREBUILT not in told.options else {}
    if why is not None:
        spec["active"] = False
    return Answer(
        kind=kinds.WORKLOADS,
        key=key,
        body=body,
        spec=spec or None,
        status=status,
        again_s=min((at_s for at_s in (None if over else end_s, again_s, check_s) if at_s is not None), default=None),
    )


def _again_s(status: Mapping[str, Any]) -> float | None:
    """Return when the scheduler tries the gang again after a check had the state Retry (seconds since the epoch)."""
    at = (status.get("requeueState") or {}).get("requeueAt")
    return read_moment(at) if at else None


def _rejected(told: GangView, status: Mapping[str, object]) -> tuple[str, str] | None:
    """Return (reason, message) of the deactivation if an AdmissionCheck has rejected the Workload; otherwise None."""
    names = [str(one["name"]) for one in checks.in_state(status_of(status), REJECTED)]
    if not names or told.stage in (GangStage.LEAVING, GangStage.FINISHED):
        return None
    return "AdmissionCheck", f"AdmissionCheck in Rejected state: {', '.join(names)}"


def _end_s(told: GangView, existing: Object, status: Mapping[str, Any]) -> float | None:
    """Return when the gang's maximum execution time ends (seconds since the epoch); None if the gang has no maximum
    execution time."""
    limit = (existing.get("spec") or {}).get("maximumExecutionTimeSeconds")
    said = Conditions(status["conditions"], "")
    if limit is None or told.stage not in (GangStage.STARTING, GangStage.RUNNING) or not said.is_true("Admitted"):
        return None
    return read_moment(said.since("Admitted")) + float(limit) - int(status.get(PAST) or 0)


def _body(defined: KueueDefinitions, told: GangView) -> Object:
    space, _, name = key_of(defined, told).partition("/")
    group = told.kind == "PodGroup"
    default = kinds.DEFAULT_CLASS if kinds.DEFAULT_CLASS in defined.priorities else None
    priority_class = told.options.get(kinds.PRIORITY_LABEL, default)
    local = (told.owners[0]["metadata"].get("labels") or {}).get(kinds.QUEUE_LABEL, "")
    spec: Object = {
        "active": True,
        "podSets": [_pod_set(each, told.kind) for each in told.pod_sets],
        "queueName": local,
        "priority": told.priority,
    }
    limit = str(told.options.get(_LIMIT, ""))
    if limit.isdigit():
        spec["maximumExecutionTimeSeconds"] = int(limit)
    if priority_class:
        named = {"group": kinds.GROUP, "kind": kinds.PRIORITY_CLASSES.name, "name": priority_class}
        spec["priorityClassRef"] = named
    meta: Object = {"name": name, "namespace": space, "ownerReferences": _owners(told)}
    meta["labels"] = {_JOB_UID: told.owners[0]["metadata"]["uid"]}
    if group:
        meta["annotations"] = {IS_GROUP: "true"}
    if (of := serving_set(defined, space, told.options)) is not None:
        meta["annotations"] |= of.annotations | {_GROUP: told.id.partition("/")[2]}
        meta["labels"] = {_JOB_UID: of.uid}
    return {
        "apiVersion": kinds.WORKLOADS.api_version,
        "kind": kinds.WORKLOADS.name,
        "metadata": meta,
        "spec": spec,
    }


def _owners(told: GangView) -> list[Object]:
    alone = len(told.owners) == 1 and told.kind != "PodGroup"
    return [_owner(owner, controller=alone) for owner in told.owners]


def _owner(owner: Object, *, controller: bool) -> Object:
    meta = owner["metadata"]
    found = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**found, "controller": True, "blockOwnerDeletion": True} if controller else found


def _pod_set(each: PodSet, kind: str) -> Object:
    fewer = {"minCount": each.minimum} if each.minimum < each.count else {}
    asked = topology_request(each.template, kind == "Job")
    return {
        "name": each.name,
        "count": each.count,
        "template": each.template,
        **fewer,
        **({"topologyRequest": asked} if asked else {}),
    }


# --- status -----------------------------------------------------------------------------------------------------------
