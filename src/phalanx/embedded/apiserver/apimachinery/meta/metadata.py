"""The rules of ObjectMeta: names by kind, labels, annotations, owners, finalizers, and what an update may change.

Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go and the name functions of each kind's strategy. The real
server checks metadata twice on an update (in rest.BeforeUpdate and again in the kind's own validation), so the causes
in a 422 stand there two or three times; clients compare them, so they do here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from phalanx.embedded.apiserver.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apiserver.apimachinery.meta.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)
from phalanx.embedded.apiserver.apimachinery.schema import formats
from phalanx.embedded.apiserver.apimachinery.schema.formats import Problems

ANNOTATIONS_LIMIT_BYTES = 256 * 1024
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
BANNED_OWNERS = frozenset({("v1", "Event")})


def service_name(name: str) -> Problems:
    """A DNS label since 1.34 (RelaxedServiceNameValidation); a dot gets a message of its own."""
    return ("must not contain dots",) if "." in name else formats.dns_label(name)


NAME_FORMATS: Mapping[tuple[str, str], Callable[[str], Problems]] = {
    ("", "namespaces"): formats.dns_label,
    ("", "services"): service_name,
    ("rbac.authorization.k8s.io", "clusterroles"): formats.path_segment,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): formats.path_segment,
    ("rbac.authorization.k8s.io", "roles"): formats.path_segment,
    ("rbac.authorization.k8s.io", "rolebindings"): formats.path_segment,
}

# How often an update validates metadata: as an update (BeforeUpdate, the kind's own), and anew as on create.
_UPDATE_ROUNDS: Mapping[tuple[str, str], tuple[int, int]] = {
    ("", "events"): (1, 0),
    ("", "podtemplates"): (2, 0),
    ("apps", "deployments"): (2, 0),
    ("batch", "cronjobs"): (2, 0),
    ("batch", "jobs"): (2, 0),
    ("node.k8s.io", "runtimeclasses"): (2, 0),
    ("coordination.k8s.io", "leases"): (2, 0),
    ("scheduling.k8s.io", "priorityclasses"): (2, 0),
    ("policy", "poddisruptionbudgets"): (1, 0),
    ("", "limitranges"): (1, 1),
    ("", "resourcequotas"): (2, 1),
}


def name_format(resource: Resource) -> Callable[[str], Problems]:
    """What names of this kind must look like."""
    return NAME_FORMATS.get(resource.key, formats.dns_subdomain)


def validate_create(resource: Resource, obj: Object) -> list[Cause]:
    """What is wrong with the metadata of a new object, whose name has been generated already."""
    return validate(obj.get("metadata") or {}, resource.namespaced, name_format(resource))


def validate(
    meta: Mapping[str, Any], namespaced: bool, form: Callable[[str], Problems], path: str = "metadata"
) -> list[Cause]:
    """Metadata of an object or of a template that becomes one."""
    causes: list[Cause] = []
    if prefix := meta.get("generateName"):
        masked = prefix[:-2] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix
        causes += (invalid_value(f"{path}.generateName", prefix, problem) for problem in form(masked))
    name = meta.get("name")
    if not name:
        causes.append(required(f"{path}.name", "name or generateName is required"))
    elif problems := form(name):
        causes += (invalid_value(f"{path}.name", name, problem) for problem in problems)
    namespace = meta.get("namespace")
    if namespaced:
        if not namespace:
            causes.append(required(f"{path}.namespace"))
        elif problems := formats.dns_label(namespace):
            causes += (invalid_value(f"{path}.namespace", namespace, problem) for problem in problems)
    elif namespace:
        causes.append(forbidden_field(f"{path}.namespace", "not allowed on this type"))
    causes += _collections(meta, path)
    for finalizer in meta.get("finalizers") or ():
        causes += finalizer_causes(finalizer, f"{path}.finalizers")
    return causes


def _collections(meta: Mapping[str, Any], path: str) -> list[Cause]:
    """Labels, annotations and owners: checked on create and on update alike."""
    causes: list[Cause] = []
    if labels := meta.get("labels"):
        causes += label_causes(labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        causes += annotation_causes(annotations, f"{path}.annotations")
    if owners := meta.get("ownerReferences"):
        causes += owner_causes(owners, f"{path}.ownerReferences")
    return causes


def label_causes(labels: Mapping[str, str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in labels.items():
        causes += (invalid_value(path, key, problem) for problem in formats.qualified_name(key))
        causes += (invalid_value(path, value, problem) for problem in formats.label_value(value))
    return causes


def annotation_causes(annotations: Mapping[str, str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        causes += (invalid_value(path, key, problem) for problem in formats.qualified_name(key.lower()))
    if size > ANNOTATIONS_LIMIT_BYTES:
        causes.append(too_long(path, ANNOTATIONS_LIMIT_BYTES))
    return causes


def owner_causes(owners: Iterable[Mapping[str, Any]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    controller = ""
    for owner in owners:
        for key, what in (("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid")):
            if not owner.get(key):
                causes.append(invalid_value(f"{path}.{key}", owner.get(key, ""), f"{what} must not be empty"))
        if (owner.get("apiVersion"), owner.get("kind")) in BANNED_OWNERS:
            text = f"/{owner['apiVersion']}, Kind={owner['kind']} is disallowed from being an owner"
            causes.append(invalid_value(path, owner, text))
        if owner.get("controller"):
            if controller:
                text = (
                    "Only one reference can have Controller set to true. Found "
                    f'"true" in references for {controller} and {owner.get("name")}'
                )
                causes.append(invalid_value(path, list(owners), text))
            else:
                controller = owner.get("name", "")
    return causes


def finalizer_causes(finalizer: str, path: str) -> list[Cause]:
    if problems := formats.qualified_name(finalizer):
        return [invalid_value(path, finalizer, problem) for problem in problems]
    if "/" in finalizer or finalizer in STANDARD_FINALIZERS:
        return []
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid_value(path, finalizer, text)]


def validate_update(resource: Resource, obj: Object, old: Object, subresource: str = "") -> list[Cause]:
    """What of the change to the metadata is not allowed. Through a subresource nothing is validated anew."""
    meta, before = obj["metadata"], old["metadata"]
    causes = _update_causes(meta, before)
    again: list[Cause] = []
    updates, creates = _UPDATE_ROUNDS.get(resource.key, (2, 0) if resource.custom else (2, 1))
    if (
        creates
        and not subresource
        and any(meta.get(key) != before.get(key) for key in ("labels", "annotations", "finalizers"))
    ):
        again = validate(meta, resource.namespaced, name_format(resource))
    return causes * updates + again * creates


def _update_causes(meta: Mapping[str, Any], before: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("deletionGracePeriodSeconds", "deletionTimestamp"):
        if meta.get(key) is not None and meta.get(key) != before.get(key):
            text = "field is immutable; may only be changed via deletion"
            causes.append(invalid_value(f"metadata.{key}", meta[key], text))
    if before.get("deletionTimestamp"):
        causes += _new_finalizers(meta.get("finalizers") or (), before.get("finalizers") or ())
    if meta.get("generation", 0) < before.get("generation", 0):
        causes.append(invalid_value("metadata.generation", meta.get("generation", 0), "must not be decremented"))
    for key in ("name", "namespace", "uid", "creationTimestamp"):
        if meta.get(key) != before.get(key):
            causes.append(invalid_value(f"metadata.{key}", meta.get(key, ""), "field is immutable"))
    for key, check in (
        ("labels", label_causes),
        ("annotations", annotation_causes),
        ("ownerReferences", owner_causes),
    ):
        if (value := meta.get(key)) and value != before.get(key):
            causes += check(value, f"metadata.{key}")
    return causes


def _new_finalizers(now: Iterable[str], before: Iterable[str]) -> list[Cause]:
    extra = sorted(set(now) - set(before))
    if not extra:
        return []
    listed = ", ".join(f'"{one}"' for one in extra)
    text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
    return [forbidden_field("metadata.finalizers", text)]
