"""Claims, volumes and their classes: defaults, access modes, sizes, immutable fields.

Source: ValidatePersistentVolumeClaimSpec, ValidatePersistentVolume and their updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats, quantity
from phalanx.embedded.apiserver.registry.kinds.checks import (
    Found,
    formatted,
    label_selector,
    resource_amount,
    unchanged,
)
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus
from phalanx.embedded.apiserver.registry.kinds.nodes.scheduling import node_selector

Spec = Mapping[str, Any]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_RECLAIMS = ("Delete", "Recycle", "Retain")
RECLAIMS, BINDING_MODES = ("Delete", "Retain"), ("Immediate", "WaitForFirstConsumer")
VOLUME_MODES = ("Block", "Filesystem")
NOT_SOURCES = frozenset(
    {"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"}
    | {"storageClassName", "volumeAttributesClassName", "volumeMode"}
)
CLAIM_FROZEN = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
)


class ClaimStrategy(SpecAndStatus):
    """`persistentvolumeclaims`."""

    delete_returns_object = True

    def default(self, obj: Object) -> None:
        obj["spec"].setdefault("volumeMode", "Filesystem")

    def first_status(self, obj: Object) -> Object:
        return {"phase": "Pending"}

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        claim_spec(found, obj["spec"], "spec")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = obj["spec"], old["spec"]
        if spec == before:
            return []
        free = {"volumeName"} if not before.get("volumeName") else set()
        if before.get("storageClassName") is None:  # the default class, given later
            free |= {"storageClassName"}
        if old["status"].get("phase") == "Bound":
            free |= {"resources", "volumeAttributesClassName"}
        changed = sorted(key for key in {*spec, *before} - free if spec.get(key) != before.get(key))
        found = [forbidden_field("spec", CLAIM_FROZEN + "\n".join(changed))] if changed else []
        if (now := _size(obj["spec"])) < _size(old["spec"]) and now <= _size_of(old["status"].get("capacity") or {}):
            path = "spec.resources.requests.storage"
            found.append(forbidden_field(path, "field can not be less than status.capacity"))
        return found


def claim_spec(found: Found, spec: Spec, path: str) -> None:
    """The spec of a claim, or of a template of claims."""
    label_selector(found, spec.get("selector"), f"{path}.selector")
    _access_modes(found, spec.get("accessModes") or (), "at least 1 access mode is required", path)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        found.append(required(f"{path}.resources[storage]"))
    elif quantity.of(size) <= 0:
        found.append(invalid_value(f"{path}.resources[storage]", size, "must be greater than zero"))
    if name := spec.get("storageClassName"):
        formatted(found, f"{path}.storageClassName", name, formats.dns_subdomain)
    _volume_mode(found, spec, path)


def _size(spec: Spec) -> int:
    return _size_of((spec.get("resources") or {}).get("requests") or {})


def _size_of(amounts: Mapping[str, str]) -> int:
    return quantity.of(amounts.get("storage", "0"))


class VolumeStrategy(SpecAndStatus):
    """`persistentvolumes`."""

    delete_returns_object = True

    def default(self, obj: Object) -> None:
        obj["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
        obj["spec"].setdefault("volumeMode", "Filesystem")
        if (path := obj["spec"].get("hostPath")) is not None:
            path.setdefault("type", "")

    def first_status(self, obj: Object) -> Object:
        return {"phase": "Pending"}

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        _access_modes(found, spec.get("accessModes") or (), "")
        capacity = spec.get("capacity") or {}
        if not capacity:
            found.append(required("spec.capacity"))
        if set(capacity) != {"storage"}:
            found.append(not_supported("spec.capacity", spec.get("capacity"), ("storage",)))
        for name, amount in capacity.items():
            resource_amount(found, name, amount, f"spec.capacity[{name}]")
            if quantity.of(amount) == 0:
                found.append(invalid_value(f"spec.capacity[{name}]", amount, "must be greater than zero"))
        sources = [key for key in spec if key not in NOT_SOURCES]
        if not sources:
            found.append(required("spec", "must specify a volume type"))
        if "hostPath" in sources and not spec["hostPath"].get("path"):
            found.append(required("spec.hostPath.path"))
        policy = spec.get("persistentVolumeReclaimPolicy")
        if policy and policy not in VOLUME_RECLAIMS:
            found.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, VOLUME_RECLAIMS))
        if (affinity := spec.get("nodeAffinity")) is not None:
            if affinity.get("required") is None:
                found.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
            else:
                node_selector(found, affinity["required"], "spec.nodeAffinity.required")
        for extra in sources[1:]:
            found.append(forbidden_field(f"spec.{extra}", "may not specify more than 1 volume type"))
        if name := spec.get("storageClassName"):
            formatted(found, "spec.storageClassName", name, formats.dns_subdomain)
        _volume_mode(found, spec)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        spec, before = obj["spec"], old["spec"]
        if any(spec.get(key) != before.get(key) for key in {*spec, *before} - NOT_SOURCES):
            text = "spec.persistentvolumesource is immutable after creation\n"
            found.append(forbidden_field("spec.persistentvolumesource", text))
        if spec.get("volumeMode") != before.get("volumeMode"):
            found.append(invalid_value("volumeMode", spec.get("volumeMode"), "field is immutable"))
        return found


class ClassStrategy(ResourceStrategy):
    """`storageclasses.storage.k8s.io`."""

    delete_returns_object = True

    def default(self, obj: Object) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        if not (provisioner := obj.get("provisioner")):
            found.append(required("provisioner"))
        else:
            formatted(found, "provisioner", provisioner.lower(), formats.qualified_name)
        if (policy := obj.get("reclaimPolicy")) not in RECLAIMS:
            found.append(not_supported("reclaimPolicy", policy, RECLAIMS))
        if (mode := obj.get("volumeBindingMode")) not in BINDING_MODES:
            found.append(not_supported("volumeBindingMode", mode, BINDING_MODES))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        fixed = {
            "parameters": "updates to parameters are forbidden.",
            "provisioner": "updates to provisioner are forbidden.",
        }
        fixed["reclaimPolicy"] = "updates to reclaimPolicy are forbidden."
        found = [forbidden_field(field, text) for field, text in fixed.items() if obj.get(field) != old.get(field)]
        unchanged(found, "volumeBindingMode", obj.get("volumeBindingMode"), old.get("volumeBindingMode"))
        return found


def _access_modes(found: Found, modes: Sequence[str], why: str, path: str = "spec") -> None:
    if not modes:
        found.append(required(f"{path}.accessModes", why))
    for mode in modes:
        if mode not in ACCESS_MODES:
            found.append(not_supported(f"{path}.accessModes", mode, ACCESS_MODES))
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        found.append(forbidden_field(f"{path}.accessModes", text))


def _volume_mode(found: Found, spec: Spec, path: str = "spec") -> None:
    if (mode := spec.get("volumeMode")) is not None and mode not in VOLUME_MODES:
        found.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
