"""Services: their defaults, ports and addresses. `service_addresses` determines which addresses are free.

Source: SetDefaults_Service, ValidateService, ValidateServiceUpdate and the REST storage of services.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds import checks
from phalanx.embedded.apiserver.registry.kinds.checks import Found, chosen, complain, formatted
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus

Spec = Mapping[str, Any]

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_DAY_S = 86400
PROTOCOLS = ("SCTP", "TCP", "UDP")
HEADLESS = "None"
STICKY_S = 10800
_OUTER_POLICY = "externalTrafficPolicy"
_POLICIES = ("Cluster", "Local")
_IP_MODES = ("Proxy", "VIP")
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")


class ServiceStrategy(SpecAndStatus):
    """The strategy of `services`."""

    delete_returns_object = True
    allow_create_on_update = True

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        if spec["sessionAffinity"] == "ClientIP":
            client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            client.setdefault("timeoutSeconds", STICKY_S)
        elif spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port", 0)
        if is_exposed(spec) and not spec.get(_OUTER_POLICY):
            spec[_OUTER_POLICY] = "Cluster"
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
            # only in updates: a new service gets its families later, together with its addresses
            if obj["metadata"].get("resourceVersion"):
                fill_families(spec)

        if spec["type"] == "LoadBalancer":
            for point in ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
                if point.get("ip"):
                    point.setdefault("ipMode", "VIP")

    def first_status(self, obj: Object) -> Object:
        return {"loadBalancer": {}}

    def prepare_update(self, obj: Object, old: Object) -> None:
        """If the update leaves out addresses or node ports that the server has allocated, keep the allocated ones."""
        super().prepare_update(obj, old)
        spec, before = obj["spec"], old["spec"]
        if spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
            # the client has set only the older field, `clusterIP`
            spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else None
            if not spec["clusterIPs"]:
                del spec["clusterIPs"]
        _drop_unneeded(spec, before)
        if spec["type"] == "ExternalName" or before.get("type") == "ExternalName":
            return
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and before.get(key):
                spec[key] = before[key]
        ports = {(one.get("protocol"), one.get("port")): one.get("nodePort") for one in before.get("ports", ())}
        for port in spec.get("ports", ()) if spec["type"] != "ClusterIP" else ():
            if not port.get("nodePort") and (node_port := ports.get((port.get("protocol"), port.get("port")))):
                port["nodePort"] = node_port

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        _service(found, obj["spec"])
        # only in updates: the addresses of a new service are checked later, when it gets them
        if obj["metadata"].get("resourceVersion"):
            found += address_causes(obj["spec"])
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = obj["spec"], old["spec"]
        if spec["type"] == before.get("type") == "LoadBalancer":
            name = spec.get("loadBalancerClass")
            if name != before.get("loadBalancerClass"):
                return [invalid_value("spec.loadBalancerClass", name, "may not change once set")]
        elif spec["type"] != "LoadBalancer" and spec.get("loadBalancerClass") is not None:
            # kube-apiserver reports this error twice
            return [forbidden_field("spec.loadBalancerClass", _ONLY_BALANCED)]
        if "ExternalName" in (spec["type"], before.get("type")) or not before.get("clusterIPs") or address_causes(spec):
            return []
        if (spec.get("clusterIPs") or [""])[0] != before["clusterIPs"][0]:
            return [invalid_value("spec.clusterIPs[0]", spec.get("clusterIPs"), "may not change once set")]
        return []

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        ingress = (obj["status"].get("loadBalancer") or {}).get("ingress") or ()
        if ingress and obj["spec"].get("type") != "LoadBalancer":
            text = "may only be used when `spec.type` is 'LoadBalancer'"
            return [forbidden_field("status.loadBalancer.ingress", text)]
        for index, one in enumerate(ingress):
            path, mode = f"status.loadBalancer.ingress[{index}]", one.get("ipMode")
            if address := one.get("ip"):
                formatted(found, f"{path}.ip", address, formats.ip)
                if mode not in _IP_MODES:
                    found.append(not_supported(f"{path}.ipMode", mode, _IP_MODES))
            elif mode is not None:
                found.append(forbidden_field(f"{path}.ipMode", "may not be specified when `ip` is not set"))
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        spec = obj["spec"]
        sort, headless, outside = spec["type"], spec.get("clusterIP") == HEADLESS, spec.get("externalIPs")
        found = []
        if headless and sort == "ClusterIP":
            ignored = [("externalIPs", outside), ("SessionAffinity", spec.get("sessionAffinity", "None") != "None")]
            ignored.insert(0, ("loadBalancerIP", spec.get("loadBalancerIP")))
            found += [f"spec.{name} is ignored for headless services" for name, given in ignored if given]
        elif outside and sort != "ExternalName":
            found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
        if outside and sort == "ExternalName":
            found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        if spec.get("externalName") and sort != "ExternalName":
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.get("trafficDistribution") == "PreferClose":
            found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return found

    def selectable_names(self) -> Iterable[str]:
        return ("spec.clusterIP", "spec.type")

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def _drop_unneeded(spec: Object, before: Spec) -> None:
    """Remove the fields that the old type of the service needed and the new type does not need, unless the client has
    changed them."""
    sort, former = spec["type"], before.get("type", "")
    dropped: list[str] = []
    if sort == "ExternalName" and former != "ExternalName":
        dropped += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    exposed = ("NodePort", "LoadBalancer")
    if former in exposed and sort not in exposed:
        dropped += ["healthCheckNodePort"] if spec.get("externalIPs") else ["healthCheckNodePort", _OUTER_POLICY]
        held = [port.get("nodePort") for port in before.get("ports") or ()]
        if held == [port.get("nodePort") for port in spec.get("ports") or ()]:
            spec["ports"] = [{key: one[key] for key in one if key != "nodePort"} for one in spec.get("ports") or ()]
    if former == "LoadBalancer" != sort:
        dropped += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    for key in dropped:
        if spec.get(key) == before.get(key):
            spec.pop(key, None)


def fill_families(spec: Object) -> None:
    """Set the defaults of a service's address families: IPv4, and both families for a headless service without a
    selector. Also set `clusterIP` from `clusterIPs`, or `clusterIPs` from `clusterIP`."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4"])


def _service(found: Found, spec: Spec) -> None:
    ports, sort = spec.get("ports") or (), spec.get("type", "")
    headless = spec.get("clusterIP") == HEADLESS
    if not ports and not headless and sort != "ExternalName":
        found.append(required("spec.ports"))
    if sort == "LoadBalancer" and headless:
        text = "may not be set to 'None' for LoadBalancer services"
        found.append(invalid_value("spec.clusterIPs[0]", HEADLESS, text))
    if sort == "NodePort" and headless:
        text = "may not be set to 'None' for NodePort services"
        found.append(invalid_value("spec.clusterIPs[0]", HEADLESS, text))
    if sort == "ExternalName":
        _external(found, spec)
    names: set[str] = set()
    for index, port in enumerate(ports):
        _port(found, port, names, f"spec.ports[{index}]", needs_name=len(ports) > 1)
    checks.labels(found, spec.get("selector"), "spec.selector")
    chosen(found, "spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    if spec.get("sessionAffinity") == "None" and spec.get("sessionAffinityConfig") is not None:
        found.append(forbidden_field("spec.sessionAffinityConfig", "must not be set when session affinity is None"))
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    if spec.get("sessionAffinity") == "ClientIP" and seconds is not None and not 0 < seconds <= _DAY_S:
        path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        found.append(invalid_value(path, seconds, f"must be greater than 0 and less than {_DAY_S}"))
    for index, address in enumerate(spec.get("externalIPs") or ()):
        formatted(found, f"spec.externalIPs[{index}]", address, _outer_ip)
    chosen(found, "spec.type", sort, TYPES)
    _unique_ports(found, ports, sort)
    _source_ranges(found, spec, sort)
    _traffic(found, spec)


def _source_ranges(found: Found, spec: Spec, sort: str) -> None:
    ranges, path = spec.get("loadBalancerSourceRanges") or (), "spec.LoadBalancerSourceRanges"
    if ranges and sort != "LoadBalancer":
        found.append(forbidden_field(path, "may only be used when `type` is 'LoadBalancer'"))
        return
    for index, one in enumerate(ranges):
        formatted(found, f"{path}[{index}]", one.strip(), formats.cidr)


def _served_families(found: Found, spec: Spec) -> None:
    """Add an error if a service requires IPv6 addresses, because the cluster has IPv4 addresses only."""
    if (policy := spec.get("ipFamilyPolicy")) == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        found.append(invalid_value("spec.ipFamilyPolicy", policy, text))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family != "IPv4":
            found.append(invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))


def _external(found: Found, spec: Spec) -> None:
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        found.append(forbidden_field("spec.clusterIPs", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").rstrip(".")
    if name:
        formatted(found, "spec.externalName", name, formats.dns_subdomain)
    else:
        found.append(required("spec.externalName"))


def _port(found: Found, port: Spec, names: set[str], path: str, *, needs_name: bool) -> None:
    name = port.get("name", "")
    if name:
        formatted(found, f"{path}.name", name, formats.dns_label)
        if name in names:
            found.append(duplicate(f"{path}.name", name))
        names.add(name)
    elif needs_name:
        found.append(required(f"{path}.name"))
    complain(found, f"{path}.port", port.get("port", 0), formats.port_number(port.get("port", 0)))
    chosen(found, f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    target = port.get("targetPort", 0)
    problems = formats.port_number(target) if isinstance(target, int) else formats.port_name(target)
    complain(found, f"{path}.targetPort", target, problems)
    if (application := port.get("appProtocol")) is not None:
        formatted(found, f"{path}.appProtocol", application, formats.qualified_name)


def _unique_ports(found: Found, ports: Iterable[Spec], sort: str) -> None:
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, key = f"spec.ports[{index}]", (port.get("protocol", ""), port.get("port", 0))
        if port.get("nodePort") and sort == "ClusterIP":
            found.append(forbidden_field(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        if key in seen:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            found.append(duplicate(path, shown))
        seen.add(key)


def _outer_ip(text: str) -> formats.Problems:
    return formats.ip(text) or formats.outer_ip(text)


def address_causes(spec: Spec) -> list[Cause]:
    """Return the errors in the addresses of a service and in their families. Kube-apiserver checks these fields before
    all others."""
    found: Found = []
    if spec.get("type") == "ExternalName":
        return found
    addresses = spec.get("clusterIPs") or ()
    if addresses and not spec.get("clusterIP"):
        found.append(
            invalid_value("spec.clusterIPs", list(addresses), "must be empty when `clusterIP` is not specified")
        )
    elif spec.get("clusterIP") and addresses and addresses[0] != spec["clusterIP"]:
        found.append(invalid_value("spec.clusterIPs", list(addresses), "first value must match `clusterIP`"))
    for index, address in enumerate(addresses):
        if address != HEADLESS:
            formatted(found, f"spec.clusterIPs[{index}]", address, formats.ip)
    families: list[str] = spec.get("ipFamilies") or []
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if address != HEADLESS and not formats.ip(address) and (":" in address) != (family == "IPv6"):
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            found.append(invalid_value(f"spec.clusterIPs[{index}]", address, text))
    for index, family in enumerate(families):
        if family not in ("IPv4", "IPv6"):
            found.append(not_supported(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6")))
        elif family in families[:index]:
            found.append(duplicate(f"spec.ipFamilies[{index}]", family))
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    if (policy := spec.get("ipFamilyPolicy")) is not None and policy not in policies:
        found.append(not_supported("spec.ipFamilyPolicy", policy, policies))
    if not found and (spec.get("clusterIP") != HEADLESS or spec.get("selector")):
        _served_families(found, spec)
    return found


def _traffic(found: Found, spec: Spec) -> None:
    """Check the fields of load balancers and the traffic policies."""
    sort, outer = spec.get("type", ""), spec.get(_OUTER_POLICY)
    for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(key) is not None and sort != "LoadBalancer":
            found.append(forbidden_field(f"spec.{key}", _ONLY_BALANCED))
    if sort == "LoadBalancer" and (name := spec.get("loadBalancerClass")) is not None:
        formatted(found, "spec.loadBalancerClass", name, formats.qualified_name)
    if not is_exposed(spec):
        if outer:
            text = "may only be set for externally-accessible services"
            found.append(invalid_value(f"spec.{_OUTER_POLICY}", outer, text))
    elif not outer:
        found.append(required(f"spec.{_OUTER_POLICY}"))
    elif outer not in _POLICIES:
        found.append(not_supported(f"spec.{_OUTER_POLICY}", outer, _POLICIES))
    port = spec.get("healthCheckNodePort")
    if port and not (sort == "LoadBalancer" and outer == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(invalid_value("spec.healthCheckNodePort", port, text))
    if (inner := spec.get("internalTrafficPolicy")) is not None and inner not in _POLICIES:
        found.append(not_supported("spec.internalTrafficPolicy", inner, _POLICIES))
    if (spread := spec.get("trafficDistribution")) is not None and spread not in _DISTRIBUTIONS:
        found.append(not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS))


def is_exposed(spec: Spec) -> bool:
    """Return True if a service can be reached from outside the cluster."""
    sort = spec.get("type", "")
    return sort in ("NodePort", "LoadBalancer") or (sort == "ClusterIP" and bool(spec.get("externalIPs")))
