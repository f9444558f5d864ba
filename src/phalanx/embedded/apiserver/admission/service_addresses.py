"""Assign free addresses and node ports to services. Refuse a requested address or node port that another service has.

The ranges of addresses and ports are those of a default cluster. Source: k8s.io/kubernetes/pkg/registry/core/service.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, ip_address

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import Cause, StatusError, invalid, invalid_value
from phalanx.embedded.apiserver.registry.kinds.workloads.service import HEADLESS, address_causes, fill_families

ADDRESSES = IPv4Network("10.96.0.0/16")
FIRST = 10  # lower addresses are reserved for services of the cluster itself, such as the API and DNS
_API = "10.96.0.1"  # the address of the service `kubernetes`, which every cluster has but this server does not store
NODE_PORTS = range(30000, 32768)


def allocate(service: Object, before: Object, others: Iterable[Object]) -> None:
    """Assign to `service` the cluster IP and the node ports that its type needs, unless it had them before the write.
    `before`: its spec before the write. `others`: the other services. Raises StatusError 422 if a requested address or
    port is not free or not in the range."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    fill_families(spec)
    if causes := () if before else address_causes(spec):
        raise invalid("", "Service", service["metadata"].get("name", ""), causes)
    meta = service["metadata"]
    place = (meta.get("namespace"), meta.get("name"))
    rest = [one["spec"] for one in others if (one["metadata"].get("namespace"), one["metadata"]["name"]) != place]
    if spec.get("clusterIP") != HEADLESS and not before.get("clusterIP"):
        _address(service, {_API, *(one.get("clusterIP") for one in rest)})
    if spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    ):
        taken = {port["nodePort"] for one in rest for port in one.get("ports", ()) if port.get("nodePort")}
        _node_ports(service, taken, {port["nodePort"] for port in before.get("ports", ()) if port.get("nodePort")})


def _address(service: Object, taken: set[str]) -> None:
    spec = service["spec"]
    wanted = spec.get("clusterIP")
    if wanted:
        if wanted in taken:
            text = f"failed to allocate IP {wanted}: provided IP is already allocated"
            _refuse(service, invalid_value("spec.clusterIPs", [wanted], text))
        if _is_address(wanted) and ip_address(wanted) not in ADDRESSES:
            text = f"failed to allocate IP {wanted}: the provided network does not match the current range"
            _refuse(service, invalid_value("spec.clusterIPs", [wanted], text))
        return
    base = int(ADDRESSES.network_address)
    free = (str(ip_address(base + offset)) for offset in range(FIRST, ADDRESSES.num_addresses - 1))
    address = next((one for one in free if one not in taken), None)
    if address is None:
        raise StatusError(
            500, "InternalError", "Internal error occurred: failed to allocate a serviceIP: range is full"
        )
    spec["clusterIP"], spec["clusterIPs"] = address, [address]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _node_ports(service: Object, taken: set[int], held: set[int]) -> None:
    """Assign a free node port to each port of the service that has none. If the service has the same port for two
    protocols (such as 53 for TCP and UDP), both get the same node port. `taken`: the node ports of other services.
    `held`: the node ports that the service had before."""
    ports = service["spec"].get("ports", ())
    stated = held | {port["nodePort"] for port in ports if port.get("nodePort")}
    of_port = {port.get("port"): port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
    assigned = set[tuple[int | None, int]]()
    for index, port in enumerate(ports):
        wanted = port.get("nodePort") or of_port.get(port.get("port"), 0)
        if (port.get("port"), wanted) in assigned:
            port["nodePort"] = wanted
            continue
        if not wanted:
            wanted = next((one for one in NODE_PORTS if one not in taken and one not in stated), 0)
            if not wanted:
                text = "failed to allocate a nodePort: range is full. Delete services of type NodePort"
                _refuse(service, invalid_value(f"spec.ports[{index}].nodePort", 0, text))
        elif wanted in taken:
            text = "provided port is already allocated"
            _refuse(service, invalid_value(f"spec.ports[{index}].nodePort", wanted, text))
        elif wanted not in NODE_PORTS:
            text = "provided port is not in the valid range. The range of valid ports is 30000-32767"
            _refuse(service, invalid_value(f"spec.ports[{index}].nodePort", wanted, text))
        port["nodePort"] = wanted
        taken.add(wanted)
        assigned.add((port.get("port"), wanted))
        of_port.setdefault(port.get("port"), wanted)


def _refuse(service: Object, cause: Cause) -> None:
    raise invalid("", "Service", service["metadata"].get("name", ""), [cause])
