"""Translate an AppWrapper of the first generation (MCAD, v1beta1) into the form of the second generation.

The entries of `GenericItems` become components, each of which wraps one object. The rules of the second generation
determine the paths of the pod templates in a wrapped object. If the object's kind has no rule, its template is at
`spec.template`, as in MCAD. The wrapped objects and their pods get the labels that MCAD would set. An object without
pods needs no capacity, so it is created without waiting.

Source: pkg/controller/queuejobresources/genericresource/genericresource.go of v1.40.0.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.pod_requests import Asked, amounts, container_requests
from phalanx.dialects.job_kinds.appwrapper import kinds
from phalanx.dialects.job_kinds.appwrapper.pod_sets import AppWrapperPodSet, WrapError, component_sets, pod_sets

_GPU: Final = "nvidia.com/gpu"
_TEMPLATE: Final = "template.spec.template"


def is_mcad(spec: Mapping[str, object]) -> bool:
    """Return whether this is the spec of an AppWrapper of the first generation."""
    return "resources" in spec and "components" not in spec


def generic_items(spec: Mapping[str, Any]) -> list[Object]:
    """Return the entries of `GenericItems` that wrap an object."""
    items = (spec.get("resources") or {}).get("GenericItems") or ()
    return [item for item in items if isinstance(item.get("generictemplate"), dict)]


def read(obj: Object) -> Object:
    """Return the AppWrapper in the form of the second generation. An AppWrapper of the second generation is returned
    unchanged."""
    spec = obj.get("spec") or {}
    if not is_mcad(spec):
        return obj
    name, selector = obj["metadata"]["name"], (spec.get("schedulingSpec") or {}).get("nodeSelector") or {}
    components = [_component(name, item["generictemplate"], selector) for item in generic_items(spec)]
    return {**obj, "spec": {"suspend": spec.get("suspend", False), "components": components}}


def pod_sets_of(obj: Object) -> tuple[AppWrapperPodSet, ...]:
    """Return the pod sets of an AppWrapper. Only an AppWrapper of the first generation may have no pods. Raise
    WrapError if the pod sets are invalid."""
    spec = read(obj).get("spec") or {}
    if not is_mcad(obj.get("spec") or {}):
        return pod_sets(spec)
    return tuple(one for at, each in enumerate(spec["components"]) for one in component_sets(at, each))


def demand(spec: Mapping[str, object]) -> Object:
    """Return the amounts that all pods of an AppWrapper request together: `totalcpu` in millicores, `totalmemory` in
    bytes, and `totalgpu`. As in MCAD, the amounts of an item come from its `custompodresources`; without that field
    they come from the containers of its pods, and init containers are ignored."""
    total: Asked = {}
    for item in generic_items(spec):
        for count, asked in _asked(item):
            for resource, amount in asked.items():
                total[resource] = total.get(resource, 0) + count * amount
    return {
        "totalcpu": total.get("cpu", 0),
        "totalmemory": total.get("memory", 0),
        "totalgpu": total.get(_GPU, 0),
    }


# --- internal ---------------------------------------------------------------------------------------------------------


def _component(name: str, template: Mapping[str, Any], selector: Mapping[str, str]) -> Object:
    obj = copy.deepcopy(dict(template))
    meta = obj.get("metadata") or {}
    own = zip(kinds.MCAD_LABELS, (name, str(meta.get("name") or "")), strict=True)
    labels = {**(meta.get("labels") or {}), **dict(own)}  # as in MCAD, the pods get all labels of the wrapped object
    component: Object = {"template": obj}
    if found := _declared(component):
        component["podSets"] = found
    obj["metadata"] = _labelled(obj.get("metadata"), labels)
    for one in _sets(component):
        if one.path != "template":
            one.template["metadata"] = _labelled(one.template.get("metadata"), labels)
        if selector and isinstance(one.template.get("spec"), dict):
            one.template["spec"]["nodeSelector"] = {**(one.template["spec"].get("nodeSelector") or {}), **selector}
    return component


def _labelled(meta: object, labels: Mapping[str, str]) -> Object:
    meta = meta if isinstance(meta, dict) else {}
    return {**meta, "labels": {**(meta.get("labels") or {}), **labels}}


def _sets(component: Object) -> list[Any]:
    try:
        return component_sets(0, component)
    except (WrapError, TypeError, ValueError, AttributeError, KeyError):
        return []  # the AppWrapper's controller reports the error


def _declared(component: Object) -> list[Object]:
    """Return the pod set at `spec.template` of an object whose kind is unknown, because MCAD expects the pod template
    of every object at this path. Return an empty list if the kind is known, or if `spec.template` is not a pod
    template."""
    spec = component["template"].get("spec")
    inner = (spec.get("template") or {}).get("spec") if isinstance(spec, dict) else None
    if _sets(component) or not isinstance(inner, dict) or not inner.get("containers"):
        return []
    return [{"path": _TEMPLATE, "replicas": spec.get("replicas", 1) if isinstance(spec, dict) else 1}]


def _asked(item: Mapping[str, Any]) -> Iterator[tuple[int, Asked]]:
    if custom := item.get("custompodresources"):
        for one in custom:
            requests, limits = amounts(one.get("requests")), amounts(one.get("limits"))
            asked = {name: requests.get(name) or limits.get(name, 0) for name in {*requests, *limits}}
            yield max(0, int(one.get("replicas") or 0)), asked
        return
    component: Object = {"template": item["generictemplate"]}
    component["podSets"] = _declared(component)
    for found in _sets(component):
        for container in (found.template.get("spec") or {}).get("containers") or ():
            yield found.replicas, container_requests(container)
