"""DeviceClass, ResourceClaim and ResourceClaimTemplate: the requests of dynamic resource allocation.

No component of Phalanx allocates a ResourceClaim, and Phalanx starts no pod that uses one. The server has these kinds
because autoscalers and charts list and write their objects. It checks names, numbers and references in these objects.
Unlike kube-apiserver, it does not compile the CEL expressions of selectors, and a namespace needs no label for
`adminAccess`. Source: pkg/apis/resource/v1/defaults.go, pkg/apis/resource/validation and pkg/registry/resource of
Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    too_many,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.gotypes.internal import internal
from phalanx.embedded.apiserver.registry.kinds.checks import IMMUTABLE, Found, formatted, is_extended, unchanged
from phalanx.embedded.apiserver.registry.kinds.drivers.csi import driver_name
from phalanx.embedded.apiserver.registry.kinds.generation import GenerationStrategy, SpecAndStatus

Value = Mapping[str, Any]

MODES = ("All", "ExactCount")
MOST, MOST_ALTERNATIVES, MOST_CONSUMERS = 32, 8, 256
LONGEST_EXPRESSION = 10 * 1024
ONE_FORM = "exactly one of `exactly` or `firstAvailable` is required"
ONE_ATTRIBUTE = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
BAD_REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
NOT_ALLOCATED = (
    "no component of this cluster allocates a {}: it stays pending, and Phalanx starts no pod that uses it; request "
    "devices as extended resources, such as nvidia.com/gpu"
)


class DeviceClassStrategy(GenerationStrategy):
    """The strategy of `deviceclasses.resource.k8s.io`."""

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        _each(found, spec.get("selectors"), MOST, "spec.selectors", _selector)
        _each(found, spec.get("config"), MOST, "spec.config", _configuration)
        name = spec.get("extendedResourceName")
        if name is not None and not is_extended(name):
            found.append(invalid_value("spec.extendedResourceName", name, "must be a valid extended resource name"))
        return found


class ResourceClaimStrategy(SpecAndStatus):
    """The strategy of `resourceclaims.resource.k8s.io`."""

    status_keeps_metadata = True
    delete_returns_object = True

    def default(self, obj: Object) -> None:
        _default(obj["spec"])

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        if not obj["metadata"].get("resourceVersion"):  # check only new claims, because the spec is immutable
            _claim(found, obj["spec"].get("devices") or {}, "spec.devices")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        if obj["spec"] != old["spec"]:
            found.append(invalid_value("spec", internal(obj["spec"], "resource.ResourceClaimSpec"), IMMUTABLE))
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        status, before = obj["status"], old.get("status") or {}
        consumers = status.get("reservedFor") or ()
        _each(found, consumers, MOST_CONSUMERS, "status.reservedFor", _consumer, key="uid")
        if consumers and status.get("allocation") is None:
            found.append(forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set"))
        if status.get("allocation") is not None and before.get("allocation") is not None:
            unchanged(found, "status.allocation", status["allocation"], before["allocation"])
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        return [NOT_ALLOCATED.format("ResourceClaim")] if old is None else []


class ClaimTemplateStrategy(ResourceStrategy):
    """The strategy of `resourceclaimtemplates.resource.k8s.io`."""

    delete_returns_object = True

    def default(self, obj: Object) -> None:
        _default(obj["spec"]["spec"])

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        if not obj["metadata"].get("resourceVersion"):
            _claim(found, obj["spec"]["spec"].get("devices") or {}, "spec.spec.devices")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        if obj["spec"] != old["spec"]:
            found.append(invalid_value("spec", internal(obj["spec"], "resource.ResourceClaimTemplateSpec"), IMMUTABLE))
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        return [NOT_ALLOCATED.format("ResourceClaimTemplate")] if old is None else []


def _default(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        for one in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if one is not None and one.setdefault("allocationMode", "ExactCount") == "ExactCount":
                one.setdefault("count", 1)


def _each(
    found: Found,
    values: Sequence[Any] | None,
    most: int,
    path: str,
    check: Callable[[Found, Any, str], None],
    key: str = "",
) -> None:
    """Check a list: it must have at most `most` values, and each value must pass `check`. No two values may have the
    same value of the field `key`. If `key` is "", the values are strings, and no two may be equal."""
    values = values or ()
    if len(values) > most:
        found.append(too_many(path, len(values), most))
    seen: list[object] = []
    for index, value in enumerate(values):
        check(found, value, f"{path}[{index}]")
        name = value.get(key) if key else value
        if name in seen:
            found.append(duplicate(f"{path}[{index}]", name))
        if key or isinstance(value, str):
            seen.append(name)


def _claim(found: Found, devices: Value, path: str) -> None:
    requests = devices.get("requests") or ()
    names = {one.get("name", "") for one in requests}
    names |= {f"{one.get('name', '')}/{sub.get('name', '')}" for one in requests for sub in _alternatives(one)}

    def reference(found: Found, name: str, path: str) -> None:
        if name not in names:
            found.append(invalid_value(path, name, BAD_REFERENCE))

    def constraint(found: Found, one: Value, path: str) -> None:
        _each(found, one.get("requests"), MOST, f"{path}.requests", reference)
        if one.get("matchAttribute") is None and one.get("distinctAttribute") is None:
            found.append(required(path, ONE_ATTRIBUTE))

    def configuration(found: Found, one: Value, path: str) -> None:
        _each(found, one.get("requests"), MOST, f"{path}.requests", reference)
        _configuration(found, one, path)

    _each(found, requests, MOST, f"{path}.requests", _request, key="name")
    _each(found, devices.get("constraints"), MOST, f"{path}.constraints", constraint)
    _each(found, devices.get("config"), MOST, f"{path}.config", configuration)


def _alternatives(request: Value) -> Sequence[Value]:
    return request.get("firstAvailable") or ()


def _request(found: Found, request: Value, path: str) -> None:
    _request_name(found, request.get("name", ""), f"{path}.name")
    exactly, alternatives = request.get("exactly"), _alternatives(request)
    if exactly is None and not alternatives:
        found.append(required(path, ONE_FORM))
    elif exactly is not None and alternatives:
        found.append(invalid_value(path, None, f"{ONE_FORM}, but multiple fields are set"))
    elif exactly is not None:
        _devices(found, exactly, f"{path}.exactly")
    else:
        _each(found, alternatives, MOST_ALTERNATIVES, f"{path}.firstAvailable", _alternative, key="name")


def _alternative(found: Found, one: Value, path: str) -> None:
    _request_name(found, one.get("name", ""), f"{path}.name")
    _devices(found, one, path)


def _request_name(found: Found, name: str, path: str) -> None:
    if not name:
        found.append(required(path))
    else:
        formatted(found, path, name, formats.dns_label)


def _devices(found: Found, one: Value, path: str) -> None:
    if not (name := one.get("deviceClassName", "")):
        found.append(required(f"{path}.deviceClassName"))
    else:
        formatted(found, f"{path}.deviceClassName", name, formats.dns_subdomain)
    _each(found, one.get("selectors"), MOST, f"{path}.selectors", _selector)
    mode, number = one.get("allocationMode"), one.get("count", 0)
    if mode == "All" and number:
        text = "must not be specified when allocationMode is 'All'"
        found.append(invalid_value(f"{path}.count", number, text))
    elif mode == "ExactCount" and number <= 0:
        found.append(invalid_value(f"{path}.count", number, "must be greater than zero"))
    elif mode not in MODES:
        found.append(not_supported(f"{path}.allocationMode", mode, MODES))


def _selector(found: Found, one: Value, path: str) -> None:
    if one.get("cel") is None:
        found.append(required(f"{path}.cel"))
    elif len(one["cel"].get("expression", "")) > LONGEST_EXPRESSION:
        found.append(too_long(f"{path}.cel.expression", LONGEST_EXPRESSION))


def _configuration(found: Found, one: Value, path: str) -> None:
    if one.get("opaque") is None:
        found.append(required(f"{path}.opaque"))
    else:
        driver_name(found, one["opaque"].get("driver", ""), f"{path}.opaque.driver")


def _consumer(found: Found, one: Value, path: str) -> None:
    for field in ("resource", "name", "uid"):
        if not one.get(field):
            found.append(required(f"{path}.{field}"))
