"""Workloads and PodGroups (scheduling.k8s.io/v1alpha2), which determine the pods that start together, by the rules of
Kubernetes 1.36.

A Workload is a set of templates. A PodGroup is created from one of them, and pods name the PodGroup in
`spec.schedulingGroup`. All fields of their specs are immutable. Source: pkg/apis/scheduling (declarative validation of
v1alpha2, with the gates GenericWorkload, WorkloadAwarePreemption and TopologyAwareWorkloadScheduling enabled),
pkg/registry/scheduling and plugin/pkg/admission/scheduling of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_many,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.formats import Format
from phalanx.embedded.apiserver.registry.kinds.checks import IMMUTABLE, Found, formatted
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus

PROTECTION = "scheduling.k8s.io/podgroup-protection"
MAX_TEMPLATES = 8
MODES = ("Pod", "PodGroup")
HIGHEST_PRIORITY = 1_000_000_000
FIXED = (
    *("podGroupTemplateRef", "schedulingPolicy", "schedulingConstraints", "resourceClaims", "disruptionMode"),
    *("priorityClassName", "priority"),
)
Spec = Mapping[str, Any]


class PodGroupStrategy(SpecAndStatus):
    """The strategy of `podgroups.scheduling.k8s.io`."""

    def default(self, obj: Object) -> None:
        obj["spec"].setdefault("disruptionMode", "Pod")

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if PROTECTION not in finalizers:
            finalizers.append(PROTECTION)

    def validate(self, obj: Object) -> list[Cause]:
        if obj["metadata"].get("resourceVersion"):
            return []  # nothing to check on an update, because the whole spec is immutable
        found: Found = []
        spec = obj["spec"]
        if (reference := spec.get("podGroupTemplateRef")) is not None:
            _reference(found, reference.get("workload"), "spec.podGroupTemplateRef.workload")
        _group(found, spec, "spec")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return _fixed(obj["spec"], old["spec"], FIXED)


class PodGroupTemplatesStrategy(ResourceStrategy):
    """The strategy of `workloads.scheduling.k8s.io`."""

    def validate(self, obj: Object) -> list[Cause]:
        if obj["metadata"].get("resourceVersion"):
            return []
        found: Found = []
        spec = obj["spec"]
        if (controller := spec.get("controllerRef")) is not None:
            _controller(found, controller, "spec.controllerRef")
        templates = spec.get("podGroupTemplates") or ()
        _templates(found, templates, "spec.podGroupTemplates")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = obj["spec"], old["spec"]
        if before.get("controllerRef") is not None:
            return _fixed(spec, before, ("controllerRef", "podGroupTemplates"))
        found: Found = []
        if spec.get("controllerRef") is not None:
            _controller(found, spec["controllerRef"], "spec.controllerRef")
        return [*found, *_fixed(spec, before, ("podGroupTemplates",))]


def _fixed(spec: Spec, before: Spec, fields: Sequence[str]) -> list[Cause]:
    return [invalid_value(f"spec.{field}", None, IMMUTABLE) for field in fields if spec.get(field) != before.get(field)]


def _named(found: Found, holder: Spec, key: str, path: str, form: Format) -> None:
    """Add an error if the required name in the field `key` is missing or has a wrong format."""
    if name := holder.get(key):
        formatted(found, f"{path}.{key}", name, form)
    else:
        found.append(required(f"{path}.{key}"))


def _reference(found: Found, workload: Spec | None, path: str) -> None:
    if workload is None:
        outer = path.removesuffix(".workload")
        found.append(invalid_value(outer, "", "must specify one of: `workload`"))
        return
    _named(found, workload, "workloadName", path, formats.dns_subdomain)
    _named(found, workload, "podGroupTemplateName", path, formats.dns_label)


def _controller(found: Found, controller: Spec, path: str) -> None:
    if group := controller.get("apiGroup"):
        formatted(found, f"{path}.apiGroup", group, formats.dns_subdomain)
    _named(found, controller, "kind", path, formats.path_segment)
    _named(found, controller, "name", path, formats.path_segment)


def _templates(found: Found, templates: Sequence[Spec], path: str) -> None:
    if not templates:
        found.append(required(path, "must have at least one item"))
    elif len(templates) > MAX_TEMPLATES:
        found.append(too_many(path, len(templates), MAX_TEMPLATES))
    else:
        names: set[str] = set()
        for place, template in enumerate(templates):
            name = template.get("name", "")
            if name in names:
                found.append(duplicate(f"{path}[{place}]", {"name": name}))
            names.add(name)
        for place, template in enumerate(templates):
            _named(found, template, "name", f"{path}[{place}]", formats.dns_label)
            _group(found, template, f"{path}[{place}]")


def _group(found: Found, spec: Spec, path: str) -> None:
    """Check the fields that a PodGroup and a template of a PodGroup have in common."""
    _policy(found, spec.get("schedulingPolicy") or {}, f"{path}.schedulingPolicy")
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    here = f"{path}.schedulingConstraints.topology"
    if len(topology) > 1:
        found.append(too_many(here, len(topology), 1))
    else:
        for place, constraint in enumerate(topology):
            _named(found, constraint, "key", f"{here}[{place}]", formats.qualified_name)
    mode = spec.get("disruptionMode")
    if mode is not None and mode not in MODES:
        found.append(not_supported(f"{path}.disruptionMode", mode, MODES))
    if name := spec.get("priorityClassName"):
        formatted(found, f"{path}.priorityClassName", name, formats.dns_subdomain)
    if (priority := spec.get("priority")) is not None and priority > HIGHEST_PRIORITY:
        found.append(invalid_value(f"{path}.priority", priority, f"must be less than or equal to {HIGHEST_PRIORITY}"))


def _policy(found: Found, policy: Spec, path: str) -> None:
    given = [key for key in ("basic", "gang") if policy.get(key) is not None]
    if not given:
        found.append(invalid_value(path, "", "must specify one of: `basic`, `gang`"))
    elif len(given) > 1:
        found.append(invalid_value(path, "{basic, gang}", "must specify exactly one of: `basic`, `gang`"))
    if (gang := policy.get("gang")) is not None:
        count = gang.get("minCount", 0)
        if not count:
            found.append(required(f"{path}.gang.minCount"))
        elif count < 1:
            found.append(invalid_value(f"{path}.gang.minCount", count, "must be greater than or equal to 1"))
