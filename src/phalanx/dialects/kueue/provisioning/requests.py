"""Create ProvisioningRequests and their PodTemplates, and compute the changes of pod templates that make pods run on
the nodes of a request.

The names and fields are the same as in Kueue. An annotation of a request names the gang.


Sources: pkg/controller/admissionchecks/provisioning of v0.19.2; autoscaling.x-k8s.io/v1 of cluster-autoscaler 1.36.

`answers` yields the requests to create, and the requests to delete because no job needs them any more.

A gang that waits for nodes from an autoscaler has its quota already (`reserved`). So its Workload has the same
conditions as in Kueue: the quota is reserved, and the checks are pending.

The state of an AdmissionCheck follows from the conditions of its ProvisioningRequest:

    Provisioned                     Ready: the pods use the nodes of the request
    Failed, BookingExpired          Retry after a pause, and Rejected after the last attempt
    CapacityRevoked                 Rejected, also while the job runs
    otherwise                       Pending, with the autoscaler's message

A job that fits on the existing nodes needs no request, so its check is Ready without a request.


Source: pkg/controller/admissionchecks/provisioning/controller.go of v0.19.2."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from phalanx.client.moment import read_moment
from phalanx.dialects.frame.dialect import Answer, GangStage, GangView, Object, PodSet
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.provisioning.configs import Config
from phalanx.model.node import Flavor, parts_of
from phalanx.model.reason import ReasonCode

CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
PARAMETER = "provreq.kueue.x-k8s.io/"  # the prefix of job annotations that become parameters of requests
MANAGED = {f"{kinds.PREFIX}managed": "true"}
GANG = "phalanx.dev/job-of-request"
LONGEST_NAME = 253
_NEEDS = ("nodeSelector", "affinity", "tolerations", "resourceClaims", "priority", "priorityClassName")


class Sets(NamedTuple):
    """Pod sets of a job that become one pod set of a ProvisioningRequest. `template`: the template of each pod. `pods`:
    the number of pods of all these pod sets."""

    name: str
    template: Object
    pods: int


def request_name(workload: str, check: str, attempt: int) -> str:
    """Return the name of the request for a Workload, a check and an attempt. The first attempt has the number 1."""
    return _limited(f"{workload}-{check}-{attempt}")


def objects(
    config: Config, told: GangView, workload: Object, name: str, flavors: Mapping[str, Sequence[Flavor]]
) -> tuple[list[Object], Object]:
    """Return the ProvisioningRequest with the given name, and its PodTemplates. `workload`: the owner of all these
    objects. `flavors`: the flavors of each pod set."""
    sets = list(_merged(config, told, flavors))
    meta = {
        "namespace": told.namespace,
        "labels": MANAGED,
        "annotations": {GANG: told.id},
        "ownerReferences": [
            {
                "apiVersion": kinds.WORKLOADS.api_version,
                "kind": kinds.WORKLOADS.name,
                "name": workload["metadata"]["name"],
                "uid": workload["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    templates: list[Object] = [
        {
            "apiVersion": kinds.POD_TEMPLATES.api_version,
            "kind": kinds.POD_TEMPLATES.name,
            "metadata": {**meta, "name": template_name(name, each.name)},
            "template": each.template,
        }
        for each in sets
    ]
    spec = {
        "provisioningClassName": config.class_name,
        "parameters": {**config.parameters, **_parameters(told)},
        "podSets": [{"podTemplateRef": {"name": template_name(name, each.name)}, "count": each.pods} for each in sets],
    }
    request = {
        "apiVersion": kinds.PROVISIONING_REQUESTS.api_version,
        "kind": kinds.PROVISIONING_REQUESTS.name,
        "metadata": {**meta, "name": name},
        "spec": spec,
    }
    return templates, request


def template_name(request: str, pod_set: str) -> str:
    """Return the name of the PodTemplate for one pod set of a request."""
    return _limited(f"ppt-{request}-{pod_set}")


def updates(config: Config, request: Object, sets: Sequence[PodSet]) -> list[Object]:
    """Return the podSetUpdates of a check after the autoscaler has provisioned the nodes of its request."""
    details = (request.get("status") or {}).get("provisioningClassDetails") or {}
    selector = {key: str(details[detail]) for key, detail in config.selectors.items() if detail in details}
    said = {CONSUME: request["metadata"]["name"], CLASS: config.class_name}
    return [
        {"name": each.name, "annotations": said, **({"nodeSelector": selector} if selector else {})} for each in sets
    ]


def owned(requests: Mapping[str, Object], workload: Object) -> list[Object]:
    """Return the ProvisioningRequests of a Workload."""
    uid = (workload.get("metadata") or {}).get("uid")
    return [
        one
        for one in requests.values()
        if uid and any(owner.get("uid") == uid for owner in one["metadata"].get("ownerReferences") or ())
    ]


def _parameters(told: GangView) -> dict[str, str]:
    """Return the parameters of the request that the annotations of the job contain."""
    said = told.owners[0]["metadata"].get("annotations") or {}
    return {key.removeprefix(PARAMETER): str(text) for key, text in said.items() if key.startswith(PARAMETER)}


def _merged(config: Config, told: GangView, flavors: Mapping[str, Sequence[Flavor]]) -> Iterator[Sets]:
    """Yield the pod sets of the request. If the config has `merges`, identical pod sets of the job become one pod
    set."""
    found: dict[str, Sets] = {}
    for each in config.wanted(told.pod_sets):
        template = with_flavors(each.template, flavors.get(each.name, ()))
        key = _key(config, each, template) if config.merges else each.name
        first = found.get(key, Sets(each.name, template, 0))
        found[key] = first._replace(pods=first.pods + each.placed)
    yield from found.values()


def _key(config: Config, each: PodSet, template: Object) -> str:
    spec = template.get("spec") or {}
    if config.by_needs:
        return json.dumps([each.request, *(spec.get(name) for name in _NEEDS)], sort_keys=True)
    return json.dumps(template, sort_keys=True)


def with_flavors(template: Object, flavors: Sequence[Flavor]) -> Object:
    """Return the pod template together with the node labels and tolerations of its flavors."""
    spec: dict[str, Any] = dict(template.get("spec") or {})
    selector = {**(spec.get("nodeSelector") or {}), **{key: text for each in flavors for key, text in each.labels}}
    more = [{key: text for key, text in vars_of(one).items() if text} for each in flavors for one in each.tolerations]
    tolerations = [*(spec.get("tolerations") or ()), *more]
    if selector:
        spec["nodeSelector"] = selector
    if tolerations:
        spec["tolerations"] = tolerations
    return {**template, "spec": spec}


def vars_of(toleration: object) -> dict[str, str]:
    """Return the fields of a toleration."""
    return {name: getattr(toleration, name) for name in ("key", "operator", "value", "effect")}


def _limited(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}-{digest}"


PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"
NOT_NEEDED = "no ProvisioningRequest is needed: the pods fit on existing nodes"
NOT_MANAGED = "no ProvisioningRequest is needed: the pods request none of the managed resources"
UNHANDLED_S = 120.0  # an autoscaler that serves the class of a request accepts the request within this time


class ProvisioningState(NamedTuple):
    """The state of a check. `pause_s`: the pause before the next attempt, if there will be a next attempt. `again_s`:
    when the state may change without an event (seconds since the epoch)."""

    state: str
    message: str
    pause_s: int | None = None
    again_s: float | None = None


def is_true(request: Object, kind: str) -> bool:
    """Return whether the request has this condition with the status True."""
    return _condition(request, kind).get("status") == "True"


def state_of(config: Config, request: Object, attempt: int, now_s: float, *, admitted: bool) -> ProvisioningState:
    """Return the state of the check. `attempt`: the number of the present request; the first request has the number 1.
    `admitted`: True if the Workload is admitted, so that it no longer needs the nodes that the autoscaler booked for
    it."""
    name = request["metadata"]["name"]
    if is_true(request, "CapacityRevoked"):
        return ProvisioningState(REJECTED, f"ProvisioningRequest {name}: {_message(request, 'CapacityRevoked')}")
    for kind in () if admitted else ("Failed", "BookingExpired"):
        if is_true(request, kind):
            return _failed(config, attempt, f"ProvisioningRequest {name}: {_message(request, kind)}")
    if is_true(request, "Provisioned"):
        return ProvisioningState(READY, f"ProvisioningRequest {name}: {_message(request, 'Provisioned')}")
    for kind in ("Provisioned", "Accepted"):
        if _condition(request, kind):
            return ProvisioningState(PENDING, f"ProvisioningRequest {name}: {_message(request, kind)}")
    until_s = read_moment(request["metadata"]["creationTimestamp"]) + UNHANDLED_S
    if now_s < until_s:
        return ProvisioningState(PENDING, f"ProvisioningRequest {name} was created", again_s=until_s)
    text = (
        f"no autoscaler has accepted ProvisioningRequest {name}: no running autoscaler handles the "
        f"class {config.class_name}"
    )
    return ProvisioningState(
        PENDING, f"{text}. Correct the ProvisioningRequestConfig, or enable requests in the autoscaler"
    )


def _failed(config: Config, attempt: int, text: str) -> ProvisioningState:
    if attempt > config.attempts:
        return ProvisioningState(REJECTED, text)
    return ProvisioningState(RETRY, f"Retrying after failure: {text}", config.pause_s(attempt))


def _condition(request: Object, kind: str) -> Mapping[str, object]:
    listed = (request.get("status") or {}).get("conditions") or ()
    return next((one for one in listed if one.get("type") == kind), {})


def _message(request: Object, kind: str) -> str:
    found = _condition(request, kind)
    return f"{kind}={found.get('status')}: {found.get('message') or found.get('reason') or ''}"


_HAS_QUOTA = frozenset({GangStage.RESERVED, GangStage.STARTING, GangStage.RUNNING})
_ADMITTED = frozenset({GangStage.STARTING, GangStage.RUNNING})


def waits_for_nodes(told: GangView) -> bool:
    """Return whether the gang has reserved quota and waits for nodes from an autoscaler."""
    reason = told.reason
    return reason is not None and reason.code is ReasonCode.WAITING_FOR_NODES and "group" in reason.numbers


def reserved(told: GangView) -> GangView:
    """Return the view of a gang as Kueue would show it. In this view, a gang that waits for nodes from an autoscaler
    already has quota and flavors."""
    reason = told.reason
    if reason is None or not waits_for_nodes(told):
        return told
    if told.stage is not GangStage.WAITING:
        return replace(told, reason=None)  # the gang has nodes now
    pods, flavors = list(reason.numbers["pods"]), list(reason.numbers["flavors"])
    sets = tuple(
        replace(each, placed=pods[at] if at < len(pods) else 0, flavor=flavors[at] if at < len(flavors) else "")
        for at, each in enumerate(told.pod_sets)
    )
    return replace(told, stage=GangStage.RESERVED, pod_sets=sets)


def attempt_of(one: Mapping[str, Any]) -> int:
    """Return the number of a check's present attempt. The first attempt has the number 1."""
    return int(one.get("retryCount") or 0) + 1


def check_state(
    config: Config, told: GangView, one: Object, request: Object | None, now: str
) -> tuple[Object, ProvisioningState]:
    """Return the entry of a check for the Workload's status. `one`: the last entry of this check. `request`: the
    request of its present attempt; None if this request does not exist."""
    found = _state(config, told, one, request, read_moment(now))
    if (found.state, found.message) == (one["state"], one.get("message")):
        return one, found
    fresh: Object = {**one, "state": found.state, "message": found.message}
    fresh.pop("requeueAfterSeconds", None)
    if found.state != one["state"]:
        fresh["lastTransitionTime"] = now
    if found.pause_s is not None:
        fresh["requeueAfterSeconds"] = found.pause_s
    if found.state == READY and request is not None and found.message not in (NOT_NEEDED, NOT_MANAGED):
        fresh["podSetUpdates"] = updates(config, request, config.wanted(told.pod_sets))
    return fresh, found


def _state(config: Config, told: GangView, one: Object, request: Object | None, now_s: float) -> ProvisioningState:
    as_it_is = ProvisioningState(one["state"], str(one.get("message") or ""))
    if told.stage not in _HAS_QUOTA:
        return as_it_is
    if not config.wanted(told.pod_sets):
        return ProvisioningState(READY, NOT_MANAGED)
    admitted = told.stage in _ADMITTED
    if one["state"] == PENDING and not waits_for_nodes(told):
        return ProvisioningState(READY, NOT_NEEDED)
    if request is None:
        return as_it_is
    found = state_of(config, request, attempt_of(one), now_s, admitted=admitted)
    if one["state"] == READY and found.state == PENDING:
        return as_it_is
    return found


def answers(
    provisioning: Mapping[str, Config],
    told: GangView,
    workload: Object,
    checks: Sequence[Object],
    known: Mapping[str, Object],
    flavors: Mapping[str, Flavor],
) -> Iterator[Answer]:
    """Yield the requests and PodTemplates to create, and the requests to delete. `workload`: the existing Workload.
    `checks`: the states of its checks. `known`: the existing requests by `namespace/name`. `flavors`: the flavors by
    name."""
    used: set[str] = set()
    for one in checks:
        config = provisioning.get(str(one["name"]))
        if config is None or told.stage not in _HAS_QUOTA or one.get("message") in (NOT_NEEDED, NOT_MANAGED):
            continue
        name = request_name(workload["metadata"]["name"], str(one["name"]), attempt_of(one))
        used.add(name)
        if one["state"] == PENDING and waits_for_nodes(told) and f"{told.namespace}/{name}" not in known:
            yield from _created(config, told, workload, name, flavors)
    if told.stage is GangStage.WAITING and told.reason is None:
        return  # after a restart, the scheduler does not know yet whether the gang waits for this request
    for each in owned(known, workload):
        name = each["metadata"]["name"]
        if name not in used and not is_true(each, "Failed"):
            yield Answer(kind=kinds.PROVISIONING_REQUESTS, key=f"{told.namespace}/{name}", gone=True)


def _created(
    config: Config, told: GangView, workload: Object, name: str, flavors: Mapping[str, Flavor]
) -> Iterator[Answer]:
    of_sets = {
        each.name: [flavors[part] for part in parts_of(each.flavor) if part in flavors] for each in told.pod_sets
    }
    templates, request = objects(config, told, workload, name, of_sets)
    for template in templates:
        yield Answer(kind=kinds.POD_TEMPLATES, key=f"{told.namespace}/{template['metadata']['name']}", body=template)
    yield Answer(kind=kinds.PROVISIONING_REQUESTS, key=f"{told.namespace}/{name}", body=request)
