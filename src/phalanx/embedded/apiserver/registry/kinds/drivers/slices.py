"""ResourceSlices: lists of devices that drivers publish for dynamic resource allocation.

Drivers may write slices, but no component of Phalanx reads them. The server stores policies for shared capacity, shared
counters, taints and binding conditions of devices without checking them. Source: pkg/apis/resource/v1/defaults.go,
pkg/apis/resource/validation and pkg/registry/resource/resourceslice of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    invalid_value,
    required,
    too_long,
    too_many,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, formatted, not_negative, unchanged
from phalanx.embedded.apiserver.registry.kinds.drivers.csi import driver_name
from phalanx.embedded.apiserver.registry.kinds.generation import GenerationStrategy
from phalanx.embedded.apiserver.registry.kinds.nodes import scheduling

Value = Mapping[str, Any]

PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
MOST_DEVICES, MOST_ATTRIBUTES, LONGEST_POOL, LONGEST_VALUE = 128, 32, 253, 64
ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
ONE_VALUE = "exactly one value must be specified"
ONE_TERM = "must have exactly one node selector term"


class SliceStrategy(GenerationStrategy):
    """The strategy of `resourceslices.resource.k8s.io`."""

    def default(self, obj: Object) -> None:
        for device in obj["spec"].get("devices") or ():
            for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
                mapping.setdefault("allocationMultiplier", "1")

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        driver_name(found, spec.get("driver", ""), "spec.driver")
        _pool(found, spec.get("pool") or {})
        _place(found, spec)
        devices = spec.get("devices") or ()
        if spec.get("sharedCounters") and devices:
            found.append(invalid_value("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
        if len(devices) > MOST_DEVICES:
            found.append(too_many("spec.devices", len(devices), MOST_DEVICES))
        seen: set[str] = set()
        for index, device in enumerate(devices):
            path, name = f"spec.devices[{index}]", device.get("name", "")
            formatted(found, f"{path}.name", name, formats.dns_label)
            if name in seen:
                found.append(duplicate(path, name))
            seen.add(name)
            _attributes(found, device, path)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        now, before = obj["spec"], old["spec"]
        unchanged(found, "spec.pool.name", now["pool"].get("name"), before["pool"].get("name"))
        for field in ("driver", "nodeName"):
            unchanged(found, f"spec.{field}", now.get(field), before.get(field))
        return found

    def selectable_names(self) -> Iterable[str]:
        return ("spec.driver", "spec.nodeName")

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        spec = obj["spec"]
        return {"spec.driver": spec.get("driver", ""), "spec.nodeName": spec.get("nodeName", "")}


def _pool(found: Found, pool: Value) -> None:
    if not (name := pool.get("name", "")):
        found.append(required("spec.pool.name"))
    elif len(name) > LONGEST_POOL:
        found.append(too_long("spec.pool.name", LONGEST_POOL))
    for part in name.split("/") if name else ():
        formatted(found, "spec.pool.name", part, formats.dns_subdomain)
    if (number := pool.get("resourceSliceCount", 0)) <= 0:
        found.append(invalid_value("spec.pool.resourceSliceCount", number, "must be greater than zero"))
    not_negative(found, pool, ("generation",), "spec.pool")


def _place(found: Found, spec: Value) -> None:
    """Check that the slice states in exactly one way which nodes can use its devices."""
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False:
            found.append(invalid_value(f"spec.{field}", False, "must be either unset or set to true"))
    if (name := spec.get("nodeName")) is not None:
        if name:
            formatted(found, "spec.nodeName", name, formats.dns_subdomain)
        else:
            text = "must be either unset or set to a non-empty string"
            found.append(invalid_value("spec.nodeName", name, text))
    if (selector := spec.get("nodeSelector")) is not None:
        scheduling.node_selector(found, selector, "spec.nodeSelector")
        if len(selector.get("nodeSelectorTerms") or ()) != 1:
            terms = selector.get("nodeSelectorTerms") or []
            found.append(invalid_value("spec.nodeSelector.nodeSelectorTerms", terms, ONE_TERM))
    given = [f"`{field}`" for field in PLACES if spec.get(field)]
    if not given:
        found.append(required("spec", ONE_PLACE))
    elif len(given) > 1:
        text = f"{ONE_PLACE}, but multiple fields are set"
        found.append(invalid_value("spec", "{" + ", ".join(given) + "}", text))


def _attributes(found: Found, device: Value, path: str) -> None:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (total := len(attributes) + len(capacity)) > MOST_ATTRIBUTES:
        text = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
        found.append(invalid_value(path, total, text))
    for name, value in attributes.items():
        here = f"{path}.attributes[{name}]"
        if len(value) != 1:
            found.append(invalid_value(here, dict(value) or "", ONE_VALUE))
        for field in ("string", "version"):
            if len(value.get(field) or "") > LONGEST_VALUE:
                found.append(too_long(f"{here}.{field}", LONGEST_VALUE))
