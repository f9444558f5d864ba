"""Volume claims, persistent volumes and storage classes: their defaults, access modes, sizes and immutable fields.

Source: ValidatePersistentVolumeClaimSpec, ValidatePersistentVolume and their updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.objectmeta import now_text
from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from phalanx.embedded.apimachinery.schema import formats, quantity
from phalanx.embedded.apimachinery.schema.gotypes.internal import changes, internal
from phalanx.embedded.apiserver.registry.kinds.checks import (
    IMMUTABLE,
    Found,
    formatted,
    label_selector,
    resource_amount,
    unchanged,
)
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus
from phalanx.embedded.apiserver.registry.kinds.nodes.scheduling import node_selector
from phalanx.embedded.apiserver.registry.kinds.volume_sources import chosen_source, persistent_csi

Spec = Mapping[str, Any]

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_RECLAIMS = ("Delete", "Recycle", "Retain")
RECLAIMS, BINDING_MODES = ("Delete", "Retain"), ("Immediate", "WaitForFirstConsumer")
VOLUME_MODES = ("Block", "Filesystem")
NOT_SOURCES = frozenset(
    {"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"}
    | {"storageClassName", "volumeAttributesClassName", "volumeMode"}
)
MOST_PARAMETERS, PARAMETERS_BYTES = 512, 256 * 1024
OLD_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
CLAIM_FROZEN = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
)


class ClaimStrategy(SpecAndStatus):
    """The strategy of `persistentvolumeclaims`."""

    delete_returns_object = True

    def default(self, obj: Object) -> None:
        obj["spec"].setdefault("volumeMode", "Filesystem")
        _both_sources(obj["spec"])

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
        kept = {"volumeName": spec.get("volumeName")} if not before.get("volumeName") else {}
        munged = dict(spec)
        if before.get("storageClassName") is None:  # if a claim has no class, it may get the default class later
            munged["storageClassName"] = None
        if obj["status"].get("phase") == "Bound":
            munged["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
            munged["resources"] = _sized(spec.get("resources") or {}, before.get("resources") or {})
        munged, former = _without_nulls(munged), _without_nulls({**before, **kept})
        found: Found = []
        if munged != former:
            found.append(
                forbidden_field("spec", CLAIM_FROZEN + changes(former, munged, "core.PersistentVolumeClaimSpec"))
            )
        if (now := _size(obj["spec"])) < _size(old["spec"]) and now <= _size_of(old["status"].get("capacity") or {}):
            path = "spec.resources.requests.storage"
            found.append(forbidden_field(path, "field can not be less than status.capacity"))
        unchanged(found, "volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
        return found


def _without_nulls(spec: Spec) -> dict[str, object]:
    return {key: value for key, value in spec.items() if value is not None}


def _sized(now: Spec, before: Spec) -> Spec:
    """Return the resources `now` of a claim, with the size from `before`."""
    if "requests" not in now:
        return now
    size = (before.get("requests") or {}).get("storage")
    return {**now, "requests": {**now["requests"], "storage": size}}


def claim_spec(found: Found, spec: Spec, path: str) -> None:
    """Check the spec of a volume claim, or of a template of claims."""
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
    _data_sources(found, spec, path)
    if name := spec.get("volumeAttributesClassName"):
        formatted(found, f"{path}.volumeAttributesClassName", name, formats.dns_subdomain)


def _data_sources(found: Found, spec: Spec, path: str) -> None:
    """Check `dataSource` and its successor `dataSourceRef`, which may also name another namespace."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for key, one in (("dataSource", source), ("dataSourceRef", reference)):
        if one is None:
            continue
        here, group = f"{path}.{key}", one.get("apiGroup") or ""
        found += [required(f"{here}.{part}") for part in ("name", "kind") if not one.get(part)]
        if not group and one.get("kind") != "PersistentVolumeClaim":
            text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            found.append(invalid_value(here, one.get("kind", ""), text))
        if group:
            formatted(found, f"{here}.apiGroup", group, formats.dns_subdomain)
    if reference is not None and (space := reference.get("namespace")):
        formatted(found, f"{path}.dataSourceRef.namespace", space, formats.dns_label)
        if source is not None:
            text = "may not be specified when dataSourceRef.namespace is specified"
            found.append(invalid_value(path, {}, text))
    elif source is not None and reference is not None and _named(source) != _named(reference):
        found.append(invalid_value(path, {}, "must match dataSourceRef"))


def _named(reference: Spec) -> tuple[str, ...]:
    return tuple(reference.get(key) or "" for key in ("apiGroup", "kind", "name"))


def _both_sources(spec: dict[str, Any]) -> None:
    """If only one of `dataSource` and `dataSourceRef` is set, set the other one, too. `dataSource` can name only claims
    and snapshots; if it names another kind, remove it."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and _named(source)[:2] not in OLD_SOURCES:
        source = spec.pop("dataSource") and None
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {key: one for key, one in reference.items() if key != "namespace"}


def _size(spec: Spec) -> int:
    return _size_of((spec.get("resources") or {}).get("requests") or {})


def _size_of(amounts: Mapping[str, str]) -> int:
    return quantity.of(amounts.get("storage", "0"))


class VolumeStrategy(SpecAndStatus):
    """The strategy of `persistentvolumes`."""

    delete_returns_object = True

    def default(self, obj: Object) -> None:
        obj["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
        obj["spec"].setdefault("volumeMode", "Filesystem")
        if (path := obj["spec"].get("hostPath")) is not None:
            path.setdefault("type", "")

    def first_status(self, obj: Object) -> Object:
        return {"phase": "Pending", "lastPhaseTransitionTime": obj["metadata"]["creationTimestamp"]}

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        """Record the time when the phase changes."""
        super().prepare_status_update(obj, old)
        status, before = obj["status"], old.get("status") or {}
        since, then = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") != before.get("phase"):
            if since in (None, then):
                status["lastPhaseTransitionTime"] = now_text()
        elif since is None and then is not None:
            status["lastPhaseTransitionTime"] = then

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
        sort = chosen_source(found, spec, [key for key in spec if key not in NOT_SOURCES], "spec")
        if sort == "csi":
            persistent_csi(found, spec["csi"], "spec.csi")
        if sort == "local" and spec.get("nodeAffinity") is None:
            found.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
        policy = spec.get("persistentVolumeReclaimPolicy")
        if policy and policy not in VOLUME_RECLAIMS:
            found.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, VOLUME_RECLAIMS))
        if (affinity := spec.get("nodeAffinity")) is not None:
            if affinity.get("required") is None:
                found.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
            else:
                node_selector(found, affinity["required"], "spec.nodeAffinity.required")
        if name := spec.get("storageClassName"):
            formatted(found, "spec.storageClassName", name, formats.dns_subdomain)
        _volume_mode(found, spec)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        spec, before = obj["spec"], old["spec"]
        now, then = ({key: one[key] for key in one if key not in NOT_SOURCES} for one in (spec, before))
        if "csi" in now and "csi" in then and then["csi"].get("controllerExpandSecretRef") is None:
            now["csi"] = {key: one for key, one in now["csi"].items() if key != "controllerExpandSecretRef"}
        if now != then:
            text = "spec.persistentvolumesource is immutable after creation\n"
            text += changes(then, now, "core.PersistentVolumeSource")
            found.append(forbidden_field("spec.persistentvolumesource", text))
        unchanged(found, "volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
        affinity, former = spec.get("nodeAffinity"), before.get("nodeAffinity")
        if former is not None and affinity != former:
            shown = internal(affinity, "*core.VolumeNodeAffinity")
            found.append(invalid_value("nodeAffinity", shown, IMMUTABLE))
        if before.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
            text = "update from non-nil value to nil is forbidden"
            found.append(forbidden_field("spec.volumeAttributesClassName", text))
        return found


class ClassStrategy(ResourceStrategy):
    """The strategy of `storageclasses.storage.k8s.io`."""

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
        _parameters(found, obj.get("parameters") or {})
        _topologies(found, obj.get("allowedTopologies") or ())
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            unchanged(found, key, obj.get(key), old.get(key))
        return found


def _parameters(found: Found, given: Mapping[str, str]) -> None:
    if len(given) > MOST_PARAMETERS:
        found.append(too_long("parameters", MOST_PARAMETERS))
        return
    found += [invalid_value("parameters", "", "field can not be empty.") for key in given if not key]
    if sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > PARAMETERS_BYTES:
        found.append(too_long("parameters", PARAMETERS_BYTES))


def _topologies(found: Found, terms: Sequence[Spec]) -> None:
    """Check the allowed topologies, which are the places in which volumes may be created. No term and no key may occur
    twice."""
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(terms):
        places: dict[str, set[str]] = {}
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        for number, one in enumerate(term.get("matchLabelExpressions") or ()):
            here, key, values = f"{path}[{number}]", one.get("key", ""), one.get("values") or ()
            if not values:
                found.append(required(f"{here}.values"))
            for place, value in enumerate(values):
                if value in values[:place]:
                    found.append(duplicate(f"{here}.values[{place}]", value))
            formatted(found, f"{here}.key", key, formats.qualified_name)
            if key in places:
                found.append(duplicate(f"{here}.key", key))
            places[key] = set(values)
        if places in seen:
            found.append(duplicate(path, ""))
        seen.append(places)


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
