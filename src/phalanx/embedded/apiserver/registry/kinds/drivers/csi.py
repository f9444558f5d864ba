"""CSIDriver, CSINode, CSIStorageCapacity and VolumeAttachment: their defaults, validation and immutable fields.

No component of Phalanx calls a CSI driver or attaches a volume. The server has these kinds because autoscalers,
schedulers and CSI drivers list and write them. Source: pkg/apis/storage/v1/defaults.go, pkg/apis/storage/validation and
pkg/registry/storage of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from phalanx.embedded.apimachinery.schema.gotypes.internal import internal
from phalanx.embedded.apiserver.registry.kinds.checks import (
    IMMUTABLE,
    NEGATIVE,
    Found,
    formatted,
    label_selector,
    not_negative,
    unchanged,
)
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus, count

GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES = ("Persistent", "Ephemeral")
SHORTEST_TOKEN_S, LONGEST_TOKEN_S = 600, 1 << 32
SHORTEST_UPDATE_S = 10
LONGEST_DRIVER, LONGEST_NODE_ID = 63, 256
ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
MOST_METADATA_BYTES, LONGEST_ERROR = 256 * 1024, 1024
NOT_ATTACHED = "no component of this cluster attaches volumes: a VolumeAttachment has no effect"
TOKENS_EXPOSED = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
NOT_CALLED = "no component of this cluster calls a CSI driver: volumes of this driver are not mounted"


class DriverStrategy(ResourceStrategy):
    """The strategy of `csidrivers.storage.k8s.io`."""

    delete_returns_object = True
    allow_unconditional_update = False

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("attachRequired", True)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        for field in ("podInfoOnMount", "requiresRepublish", "storageCapacity", "seLinuxMount"):
            spec.setdefault(field, False)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def prepare_update(self, obj: Object, old: Object) -> None:
        count(obj, old, ("spec",))

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        if (policy := spec.get("fsGroupPolicy")) not in GROUP_POLICIES:
            found.append(not_supported("spec.fsGroupPolicy", policy, GROUP_POLICIES))
        _tokens(found, spec.get("tokenRequests") or ())
        for mode in spec.get("volumeLifecycleModes") or ():
            if mode not in LIFECYCLE_MODES:
                found.append(not_supported("spec.volumeLifecycleModes", mode, LIFECYCLE_MODES))
        period_s = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period_s is not None and period_s < SHORTEST_UPDATE_S:
            text = f"must be greater than or equal to {SHORTEST_UPDATE_S} seconds"
            found.append(invalid_value("spec.nodeAllocatableUpdatePeriodSeconds", period_s, text))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        for field, shown in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            unchanged(found, f"spec.{shown}", obj["spec"].get(field), old["spec"].get(field))
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        found = [] if old is not None else [NOT_CALLED]
        if old is None and obj["spec"].get("tokenRequests") and obj["spec"].get("serviceAccountTokenInSecrets") is None:
            found.append(TOKENS_EXPOSED)
        return found


def _tokens(found: Found, requests: Sequence[Mapping[str, Any]]) -> None:
    seen: set[str] = set()
    for index, one in enumerate(requests):
        audience, expires_s = one.get("audience", ""), one.get("expirationSeconds")
        if audience in seen:
            found.append(duplicate(f"spec.tokenRequests[{index}].audience", audience))
            continue
        seen.add(audience)
        path = f"spec.tokenRequests[{index}].expirationSeconds"
        if expires_s is not None and expires_s < SHORTEST_TOKEN_S:
            found.append(invalid_value(path, expires_s, "may not specify a duration less than 10 minutes"))
        if expires_s is not None and expires_s > LONGEST_TOKEN_S:
            found.append(invalid_value(path, expires_s, "may not specify a duration larger than 2^32 seconds"))


def driver_name(found: Found, name: str, path: str) -> None:
    """Check the name of a driver of volumes or devices, which may have capital letters."""
    if not name:
        found.append(required(path))
    elif len(name) > LONGEST_DRIVER:
        found.append(too_long(path, LONGEST_DRIVER))
    if name:
        formatted(found, path, name.lower(), formats.dns_subdomain)


class NodeDriversStrategy(ResourceStrategy):
    """The strategy of `csinodes.storage.k8s.io`."""

    delete_returns_object = True
    allow_unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        seen: set[str] = set()
        for index, driver in enumerate(obj["spec"].get("drivers") or ()):
            path = f"spec.drivers[{index}]"
            name, identity = driver.get("name", ""), driver.get("nodeID", "")
            driver_name(found, name, f"{path}.name")
            if not identity:
                found.append(required(f"{path}.nodeID", identity))
            if len(identity) > LONGEST_NODE_ID:
                text = f"must be {LONGEST_NODE_ID} characters or less"
                found.append(invalid_value(f"{path}.nodeID", identity, text))
            not_negative(found, driver.get("allocatable") or {}, ("count",), f"{path}.allocatable")
            if name in seen:
                found.append(duplicate(f"{path}.name", name))
            seen.add(name)
            _topology_keys(found, driver.get("topologyKeys") or (), path)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        before = {driver["name"]: driver for driver in old["spec"].get("drivers") or ()}
        for driver in obj["spec"].get("drivers") or ():
            if (known := before.get(driver["name"])) is not None:
                unchanged(found, "spec.drivers", _without_count(driver), _without_count(known))
        return found


def _topology_keys(found: Found, keys: Sequence[str], path: str) -> None:
    for number, key in enumerate(keys):
        if not key:
            found.append(required(path, key))
        if key in keys[:number]:
            found.append(duplicate(path, key))
        formatted(found, path, key, formats.qualified_name)


def _without_count(driver: Mapping[str, object]) -> dict[str, object]:
    """Return a driver of a CSINode without the number of its volumes, the only field that may change."""
    return {key: value for key, value in driver.items() if key != "allocatable"}


class CapacityStrategy(ResourceStrategy):
    """The strategy of `csistoragecapacities.storage.k8s.io`."""

    allow_unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        label_selector(found, obj.get("nodeTopology"), "nodeTopology")
        formatted(found, "storageClassName", obj.get("storageClassName", ""), formats.dns_subdomain)
        amount = obj.get("capacity")
        if amount is not None and quantity.of(amount) < 0:
            found.append(invalid_value("capacity", amount, NEGATIVE))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        for field in ("nodeTopology", "storageClassName"):
            unchanged(found, field, obj.get(field), old.get(field))
        return found


class AttachmentStrategy(SpecAndStatus):
    """The strategy of `volumeattachments.storage.k8s.io`."""

    status_keeps_metadata = True
    allow_unconditional_update = False
    delete_returns_object = True

    def first_status(self, obj: Object) -> Object:
        return {"attached": False}

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        driver_name(found, spec.get("attacher", ""), "spec.attacher")
        source = spec.get("source") or {}
        named, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        if named is None and inline is None:
            found.append(required("spec.source", ONE_SOURCE))
        elif named is not None and inline is not None:
            found.append(forbidden_field("spec.source", ONE_SOURCE))
        elif named is not None:
            path = "spec.source.persistentVolumeName"
            if not named:
                found.append(required(path, "must specify non empty persistentVolumeName"))
            formatted(found, path, named, formats.dns_subdomain)
        formatted(found, "spec.nodeName", spec.get("nodeName", ""), formats.dns_subdomain)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        if obj["spec"] != old["spec"]:
            found.append(invalid_value("spec", internal(obj["spec"], "storage.VolumeAttachmentSpec"), IMMUTABLE))
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        status = obj["status"]
        texts = status.get("attachmentMetadata") or {}
        if sum(len(key) + len(value) for key, value in texts.items()) > MOST_METADATA_BYTES:
            found.append(too_long("status.attachmentMetadata", MOST_METADATA_BYTES))
        for field in ("attachError", "detachError"):
            if len((status.get(field) or {}).get("message", "")) > LONGEST_ERROR:
                found.append(too_long(f"status.{field}.message", LONGEST_ERROR))
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        return [NOT_ATTACHED] if old is None else []
