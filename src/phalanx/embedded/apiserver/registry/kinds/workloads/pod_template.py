"""Pod templates and endpoints: kinds that hold a piece of another kind."""

from __future__ import annotations

from phalanx.embedded.apiserver.apimachinery.meta.resource import Object, Strategy
from phalanx.embedded.apiserver.apimachinery.meta.status import Cause, required
from phalanx.embedded.apiserver.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, chosen, complain, formatted
from phalanx.embedded.apiserver.registry.kinds.generation import Counted
from phalanx.embedded.apiserver.registry.kinds.pods import defaults, spec


class PodTemplateStrategy(Counted):
    """`podtemplates`."""

    spec_fields = ("template",)

    def default(self, obj: Object) -> None:
        defaults.pod_spec(obj["template"]["spec"])

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec.template(found, obj["template"], "template")
        return found


class EndpointsStrategy(Strategy):
    """`endpoints`."""

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
                    formatted(found, f"{path}.{key}[{number}].ip", address.get("ip", ""), formats.ip)
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
    chosen(found, f"{path}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"))
