"""What the pods of this node find by name: services, and pods with a host name below a headless service.

The names are those of the DNS specification of Kubernetes (github.com/kubernetes/dns, docs/specification.md), with the
shorter forms that a pod's search path makes of them. A headless service stands for the addresses of its ready pods, or
of all with `publishNotReadyAddresses`; one with a cluster IP for the address at which the node forwards to one of its
pods (see `forward`). Pure: pods and services in, records out.

What this node does not run has no address here, so only its own pods are in the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.embedded.node.network.addresses import Networks

Object = Mapping[str, Any]
ZONE = "cluster.local"
_LABEL_MOST = 63  # of a host name; the kernel allows 64
TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Record:
    """`name`.`namespace`.svc.cluster.local is at `address`."""

    address: str
    name: str
    namespace: str

    def line(self, seen_from: str) -> str:
        """As a line of /etc/hosts (hosts(5)) for pods of the namespace `seen_from`."""
        place = f"{self.name}.{self.namespace}"
        names = [f"{place}.svc.{ZONE}", f"{place}.svc", place]
        if seen_from == self.namespace:
            names.append(self.name)
        return " ".join([self.address, *names])


def records(home: Networks, pods: Sequence[tuple[Object, str]], services: Sequence[Object]) -> list[Record]:
    """Of all services that this node can answer for. `pods`: each with its address."""
    found = dict[Record, None]()  # an ordered set
    for service in services:
        name, space = service["metadata"]["name"], service["metadata"]["namespace"]
        if address := home.service_address(service["spec"].get("clusterIP") or ""):
            found[Record(address, name, space)] = None
        for pod, at in endpoints(service, pods):
            if not address:
                found[Record(at, name, space)] = None
            if pod["spec"].get("subdomain") == name and pod["spec"].get("hostname"):
                found[Record(at, f"{pod['spec']['hostname']}.{name}", space)] = None
    return list(found)


def endpoints(service: Object, pods: Sequence[tuple[Object, str]]) -> Iterator[tuple[Object, str]]:
    """The pods that the service stands for now, each with its address."""
    selector, space = service["spec"].get("selector") or {}, service["metadata"]["namespace"]
    early = bool(service["spec"].get("publishNotReadyAddresses"))
    for pod, address in pods if selector else ():
        meta, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        chosen = selector.items() <= (meta.get("labels") or {}).items()
        if meta["namespace"] != space or not chosen or phase in TERMINAL:
            continue
        if early or (_is_ready(pod) and "deletionTimestamp" not in meta):
            yield pod, address


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


# --- the pod itself ---------------------------------------------------------------------------------------------------


def host_name(pod: Object) -> str:
    """Return what hostname(1) says in the pod, as the kubelet makes it (pkg/kubelet/kubelet_pods.go)."""
    spec = pod["spec"]
    short = _short(pod)
    return full_name(pod) or short if spec.get("setHostnameAsFQDN") else short


def _short(pod: Object) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:_LABEL_MOST].rstrip("-.")


def full_name(pod: Object) -> str:
    """With its domain; empty for a pod without `subdomain`."""
    below = pod["spec"].get("subdomain")
    return f"{_short(pod)}.{below}.{pod['metadata']['namespace']}.svc.{ZONE}" if below else ""


def own_lines(pod: Object, address: str) -> list[str]:
    """Of /etc/hosts: the pod's own names first, and the aliases that its author wrote.

    The name of its node is one of them: programs that are told the nodes of their job (those of Slurm are) ask whether
    the first of these is the machine that they run on, and listen there."""
    names = dict.fromkeys((address, full_name(pod), _short(pod), pod["spec"].get("nodeName") or ""))
    own = " ".join(name for name in names if name)
    aliases = [" ".join([one["ip"], *(one.get("hostnames") or ())]) for one in pod["spec"].get("hostAliases") or ()]
    return [own, *aliases] if not pod["spec"].get("hostNetwork") else aliases
