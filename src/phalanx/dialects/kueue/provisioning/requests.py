"""ProvisioningRequests and their PodTemplates, and the changes by which pods consume a request.

Their names and fields are those that Kueue gives them. An annotation names the gang.


Sources: pkg/controller/admissionchecks/provisioning of v0.19.2; autoscaling.x-k8s.io/v1 of cluster-autoscaler 1.36.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from phalanx.dialects.frame.dialect import Object, PodSet, Told
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.provisioning.configs import Config
from phalanx.model.node import Flavor

CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
PARAMETER = "provreq.kueue.x-k8s.io/"  # prefix of annotations of jobs
MANAGED = {f"{kinds.PREFIX}managed": "true"}
GANG = "phalanx.dev/job-of-request"
LONGEST_NAME = 253
_NEEDS = ("nodeSelector", "affinity", "tolerations", "resourceClaims", "priority", "priorityClassName")


class Sets(NamedTuple):
    """Pod sets that are one pod set of a request: the template of each pod, and the number of pods."""

    name: str
    template: Object
    pods: int


def request_name(workload: str, check: str, attempt: int) -> str:
    """Return the name of the request for a Workload, a check and an attempt, from 1."""
    return _limited(f"{workload}-{check}-{attempt}")


def objects(
    config: Config, told: Told, workload: Object, name: str, flavors: Mapping[str, Sequence[Flavor]]
) -> tuple[list[Object], Object]:
    """Return the PodTemplates and the ProvisioningRequest of that name. `workload`: the owner of all. `flavors`: the
    flavors of each pod set."""
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
    """Return the name of the PodTemplate of a request's pod set."""
    return _limited(f"ppt-{request}-{pod_set}")


def updates(config: Config, request: Object, sets: Sequence[PodSet]) -> list[Object]:
    """Return the podSetUpdates of a check whose request is provisioned."""
    details = (request.get("status") or {}).get("provisioningClassDetails") or {}
    selector = {key: str(details[detail]) for key, detail in config.selectors.items() if detail in details}
    said = {CONSUME: request["metadata"]["name"], CLASS: config.class_name}
    return [
        {"name": each.name, "annotations": said, **({"nodeSelector": selector} if selector else {})} for each in sets
    ]


def owned(requests: Mapping[str, Object], workload: Object) -> list[Object]:
    """Return the requests of a Workload."""
    uid = (workload.get("metadata") or {}).get("uid")
    return [
        one
        for one in requests.values()
        if uid and any(owner.get("uid") == uid for owner in one["metadata"].get("ownerReferences") or ())
    ]


def _parameters(told: Told) -> dict[str, str]:
    """Return the parameters in the annotations of the job."""
    said = told.owners[0]["metadata"].get("annotations") or {}
    return {key.removeprefix(PARAMETER): str(text) for key, text in said.items() if key.startswith(PARAMETER)}


def _merged(config: Config, told: Told, flavors: Mapping[str, Sequence[Flavor]]) -> Iterator[Sets]:
    """Yield the pod sets of the request."""
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
    """Return the pod template with the node labels and tolerations of its flavors."""
    spec: dict[str, Any] = dict(template.get("spec") or {})
    selector = {**(spec.get("nodeSelector") or {}), **{key: text for each in flavors for key, text in each.labels}}
    more = [{key: text for key, text in vars_of(one).items() if text} for each in flavors for one in each.tolerations]
    tolerations = [*(spec.get("tolerations") or ()), *more]
    if selector:
        spec["nodeSelector"] = selector
    if tolerations:
        spec["tolerations"] = tolerations
    return {**template, "spec": spec}


def vars_of(toleration: Any) -> dict[str, str]:
    """Return the fields of a toleration."""
    return {name: getattr(toleration, name) for name in ("key", "operator", "value", "effect")}


def _limited(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}-{digest}"
