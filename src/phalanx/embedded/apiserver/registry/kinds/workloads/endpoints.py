"""Endpoints and EndpointSlices: the addresses of a service's pods.

Source: pkg/apis/core/validation, pkg/apis/discovery (v1 defaults, validation), pkg/registry/discovery/endpointslice.
"""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import Cause, duplicate, not_supported, required, too_many
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, chosen, complain, formatted, unchanged
from phalanx.embedded.apiserver.registry.kinds.generation import GenerationStrategy

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS = 1000, 100, 20000


class EndpointsStrategy(ResourceStrategy):
    """The strategy of `endpoints`."""

    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        for index, subset in enumerate(obj.get("subsets") or ()):
            path = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                found.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
            for key in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(key) or ()):
                    place, found_ip = f"{path}.{key}[{number}].ip", address.get("ip", "")
                    formatted(found, place, found_ip, formats.ip)
                    formatted(found, place, found_ip, formats.outer_ip)
            ports = subset.get("ports") or ()
            for number, port in enumerate(ports):
                _port(found, port, f"{path}.ports[{number}]", needs_name=len(ports) > 1)
        return found


def _port(found: Found, port: Object, path: str, *, needs_name: bool) -> None:
    if name := port.get("name"):
        formatted(found, f"{path}.name", name, formats.dns_label)
    elif needs_name:
        found.append(required(f"{path}.name"))
    complain(found, f"{path}.port", port.get("port", 0), formats.port_number(port.get("port", 0)))
    chosen(found, f"{path}.protocol", port.get("protocol"), _PROTOCOLS)


class EndpointSliceStrategy(GenerationStrategy):
    """The strategy of `endpointslices.discovery.k8s.io`."""

    spec_fields = ("endpoints", "ports", "addressType")

    def default(self, obj: Object) -> None:
        for port in obj.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Increment the generation if the labels have changed, even if the spec has not."""
        super().prepare_update(obj, old)
        if obj["metadata"].get("labels") != old["metadata"].get("labels"):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        chosen(found, "addressType", obj.get("addressType"), _ADDRESS_TYPES)
        endpoints, ports = obj.get("endpoints") or (), obj.get("ports") or ()
        if len(endpoints) > _MOST_ENDPOINTS:
            found.append(too_many("endpoints", len(endpoints), _MOST_ENDPOINTS))
        if len(ports) > _MOST_PORTS:
            found.append(too_many("ports", len(ports), _MOST_PORTS))
        form = formats.dns_subdomain if obj.get("addressType") == "FQDN" else formats.ip
        for index, one in enumerate(endpoints):
            path, addresses = f"endpoints[{index}].addresses", one.get("addresses") or ()
            for key, name_form in (("hostname", formats.dns_label), ("nodeName", formats.dns_subdomain)):
                if (name := one.get(key)) is not None:
                    formatted(found, f"endpoints[{index}].{key}", name, name_form)
            if not addresses:
                found.append(required(path, "must contain at least 1 address"))
            elif len(addresses) > _MOST_ADDRESSES:
                found.append(too_many(path, len(addresses), _MOST_ADDRESSES))
            for number, address in enumerate(addresses):
                formatted(found, f"{path}[{number}]", address, form)
        names: set[str] = set()
        for number, port in enumerate(ports):
            if name := port.get("name"):
                formatted(found, f"ports[{number}].name", name, formats.dns_label)
            if (name := port.get("name", "")) in names:
                found.append(duplicate(f"ports[{number}].name", name))
            names.add(name)
            if (protocol := port.get("protocol")) is None:
                found.append(required(f"ports[{number}].protocol"))
            elif protocol not in _PROTOCOLS:
                found.append(not_supported(f"ports[{number}].protocol", protocol, _PROTOCOLS))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        unchanged(found, "addressType", obj.get("addressType"), old.get("addressType"))
        return found
