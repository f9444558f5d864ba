"""Validate ObjectMeta: names (by the rules of each kind), labels, annotations, owners, finalizers, and the changes that
an update makes.

Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go and the name functions of each kind's strategy. On an
update, kube-apiserver checks metadata twice (in rest.BeforeUpdate, and again in the kind's own validation), so a 422
response contains the same causes two or three times. Clients compare these causes, so this module repeats them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.formats import Problems

ANNOTATIONS_LIMIT_BYTES = 256 * 1024
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
BANNED_OWNERS = frozenset({("v1", "Event")})


NAME_FORMATS: Mapping[tuple[str, str], Callable[[str], Problems]] = {
    ("", "events"): formats.path_segment,
    ("", "namespaces"): formats.dns_label,
    ("", "services"): formats.dns_label,  # since Kubernetes 1.34 (RelaxedServiceNameValidation)
    ("apps", "statefulsets"): formats.dns_label,
    ("policy", "poddisruptionbudgets"): formats.path_segment,
    ("rbac.authorization.k8s.io", "clusterroles"): formats.path_segment,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): formats.path_segment,
    ("rbac.authorization.k8s.io", "roles"): formats.path_segment,
    ("rbac.authorization.k8s.io", "rolebindings"): formats.path_segment,
}

# The number of times that a kind's own validation repeats the metadata checks on an update, after the checks of
# rest.BeforeUpdate. The first number is for the checks of an update, the second for the checks of a create. For most
# kinds both numbers are 1; admission policies and webhooks are exceptions (see `_own_rounds`).
_OWN_ROUNDS: Mapping[tuple[str, str], tuple[int, int]] = {
    ("", "events"): (0, 0),
    ("", "limitranges"): (0, 1),
    ("", "persistentvolumes"): (0, 2),
    ("", "podtemplates"): (1, 0),
    ("", "replicationcontrollers"): (1, 0),
    ("", "resourcequotas"): (1, 0),
    ("", "services"): (1, 0),
    ("apps", "daemonsets"): (1, 0),
    ("apps", "deployments"): (1, 0),
    ("apps", "replicasets"): (1, 0),
    ("apps", "statefulsets"): (1, 0),
    ("autoscaling", "horizontalpodautoscalers"): (1, 0),
    ("batch", "cronjobs"): (1, 0),
    ("coordination.k8s.io", "leases"): (1, 0),
    ("discovery.k8s.io", "endpointslices"): (0, 1),
    ("networking.k8s.io", "networkpolicies"): (1, 0),
    ("policy", "poddisruptionbudgets"): (0, 0),
    ("resource.k8s.io", "resourceslices"): (1, 0),
    ("scheduling.k8s.io", "priorityclasses"): (1, 0),
    ("storage.k8s.io", "csidrivers"): (1, 0),
    ("storage.k8s.io", "csinodes"): (0, 1),
    ("storage.k8s.io", "volumeattachments"): (0, 1),
}
# API groups in whose objects a finalizer needs no domain: every qualified name is valid.
_ANY_FINALIZER = frozenset({"coordination.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io"})


def name_format(resource: Resource) -> Callable[[str], Problems]:
    """Return the function that checks names of this kind."""
    return NAME_FORMATS.get(resource.key, formats.dns_subdomain)


def validate_create(resource: Resource, obj: Object) -> list[Cause]:
    """Return the errors in the metadata of a new object. The caller has already replaced `generateName` by a name."""
    meta = obj.get("metadata") or {}
    return [*validate(meta, resource.namespaced, name_format(resource)), *_unqualified_finalizers(resource, meta)]


def validate(
    meta: Mapping[str, Any], namespaced: bool, form: Callable[[str], Problems], path: str = "metadata"
) -> list[Cause]:
    """Return the errors in the metadata of an object, or of a template of objects. `form`: checks the name. `path`: the
    path of the metadata, for messages."""
    causes: list[Cause] = []
    if prefix := meta.get("generateName"):
        problems = form(formats.as_prefix(prefix))
        causes += (invalid_value(f"{path}.generateName", prefix, problem) for problem in problems)
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
    if finalizers := meta.get("finalizers"):
        causes += finalizer_causes(finalizers, f"{path}.finalizers")
    return causes


def _collections(meta: Mapping[str, Any], path: str) -> list[Cause]:
    """Return the errors in labels, annotations and owners. These fields are checked on create and on update."""
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
        size += len(key.encode()) + len(value.encode())
        causes += (invalid_value(path, key, problem) for problem in formats.qualified_name(key.lower()))
    if size > ANNOTATIONS_LIMIT_BYTES:
        causes.append(too_long(path, ANNOTATIONS_LIMIT_BYTES))
    return causes


def owner_causes(owners: Iterable[Mapping[str, Any]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    controller = ""
    for owner in owners:
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key) or (key == "apiVersion" and owner[key].count("/") > 1):
                text = "version must not be empty" if key == "apiVersion" else "must not be empty"
                causes.append(invalid_value(f"{path}.{key}", owner.get(key, ""), text))
        if (owner.get("apiVersion"), owner.get("kind")) in BANNED_OWNERS:
            text = f"/{owner['apiVersion']}, Kind={owner['kind']} is disallowed from being an owner"
            causes.append(invalid_value(path, owner, text))
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                text = (
                    "Only one reference can have Controller set to true. Found "
                    f'"true" in references for {controller} and {this}'
                )
                causes.append(invalid_value(path, list(owners), text))
            else:
                controller = this
    return causes


def finalizer_causes(finalizers: Sequence[str], path: str) -> list[Cause]:
    causes = [invalid_value(path, one, problem) for one in finalizers for problem in formats.qualified_name(one)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid_value(path, list(finalizers), text))
    return causes


def _unqualified_finalizers(resource: Resource, meta: Mapping[str, Any]) -> list[Cause]:
    """Return an error for each finalizer that has no domain and is not a standard finalizer. Only objects of built-in
    kinds are checked."""
    if resource.custom or resource.group in _ANY_FINALIZER:
        return []
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_value(f"metadata.finalizers[{place}]", one, text)
        for place, one in enumerate(meta.get("finalizers") or ())
        if "/" not in one and one not in STANDARD_FINALIZERS
    ]


def validate_update(resource: Resource, obj: Object, old: Object, subresource: str = "") -> list[Cause]:
    """Return an error for each forbidden change of the metadata. For a write to a subresource, the errors that the
    kind's own validation would find again are not repeated."""
    meta, before = obj["metadata"], old["metadata"]
    updated = _update_causes(meta, before)
    if not any(meta.get(key) != before.get(key) for key in _CHECKED_ANEW):
        updates, _ = _own_rounds(resource, subresource)
        return updated * (1 + updates)
    updates, creates = _own_rounds(resource, subresource)
    anew = validate(meta, resource.namespaced, formats.path_segment)
    unqualified = _unqualified_finalizers(resource, meta)
    own = validate(meta, resource.namespaced, name_format(resource)) + unqualified if creates else []
    return [*anew, *updated, *(updated + unqualified) * updates, *own * creates]


_CHECKED_ANEW = ("labels", "annotations", "finalizers", "ownerReferences", "generateName")


def _own_rounds(resource: Resource, subresource: str) -> tuple[int, int]:
    if resource.custom or subresource:
        return 1, 0
    if resource.group == "admissionregistration.k8s.io":
        return 0, 1
    return _OWN_ROUNDS.get(resource.key, (1, 1))


def _update_causes(meta: Mapping[str, Any], before: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    if before.get("deletionTimestamp"):
        causes += _new_finalizers(meta.get("finalizers") or (), before.get("finalizers") or ())
    if meta.get("generation", 0) < before.get("generation", 0):
        causes.append(invalid_value("metadata.generation", meta.get("generation", 0), "must not be decremented"))
    for key in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
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
