"""Compute the names that the pods of this node can resolve: services, and pods with a host name below a headless
service.

The names are those of the DNS specification of Kubernetes (github.com/kubernetes/dns, docs/specification.md), with the
shorter forms that a pod's search path allows. A headless service resolves to the addresses of its ready pods, or of all
pods with `publishNotReadyAddresses`. A service with a cluster IP resolves to the address at which the node forwards to
one of its pods (see `forward`). Pure functions: pods and services in, records out.

Pods of other nodes have no address on this machine, so the records contain this node's pods only.

A pod's /etc/hosts, which changes while programs read it.

The file is mounted into containers, so it cannot be replaced, and a reader could see half of a rewrite. So each line
has a slot of a whole number of blocks. It is written as a comment first, and takes effect when its first byte is
written; it is removed by becoming a comment again. A concurrent reader sees the old or the new state only. Free slots
are reused, so the file does not grow with the number of past pods."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.embedded.node.network.addresses import Networks

Object = Mapping[str, Any]
ZONE = "cluster.local"
_LABEL_MOST = 63  # characters of a host name; the kernel allows 64
TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Record:
    """A name and its address: `name`.`namespace`.svc.cluster.local resolves to `address`."""

    address: str
    name: str
    namespace: str

    def line(self, seen_from: str) -> str:
        """Return the line of /etc/hosts (hosts(5)) for pods of the namespace `seen_from`."""
        place = f"{self.name}.{self.namespace}"
        names = [f"{place}.svc.{ZONE}", f"{place}.svc", place]
        if seen_from == self.namespace:
            names.append(self.name)
        return " ".join([self.address, *names])


def records(home: Networks, pods: Sequence[tuple[Object, str]], services: Sequence[Object]) -> list[Record]:
    """Return the DNS records of the services and of their named pods. `pods`: each with its address."""
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
    """Yield the ready pods that the service selects, each with its address."""
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
    """Return the host name of the pod, which hostname(1) prints there, by the kubelet's rules
    (pkg/kubelet/kubelet_pods.go)."""
    spec = pod["spec"]
    short = _short(pod)
    return full_name(pod) or short if spec.get("setHostnameAsFQDN") else short


def _short(pod: Object) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:_LABEL_MOST].rstrip("-.")


def full_name(pod: Object) -> str:
    """Return the pod's host name with its domain; empty for a pod without `subdomain`."""
    below = pod["spec"].get("subdomain")
    return f"{_short(pod)}.{below}.{pod['metadata']['namespace']}.svc.{ZONE}" if below else ""


def own_lines(pod: Object, address: str) -> list[str]:
    """Return the lines of /etc/hosts for the pod's own names, and for the aliases of its spec.

    The name of its node is one of them. Programs that get the list of their job's nodes (as in Slurm) check whether the
    first node is their own machine, and listen there."""
    names = dict.fromkeys((address, full_name(pod), _short(pod), pod["spec"].get("nodeName") or ""))
    own = " ".join(name for name in names if name)
    aliases = [" ".join([one["ip"], *(one.get("hostnames") or ())]) for one in pod["spec"].get("hostAliases") or ()]
    return [own, *aliases] if not pod["spec"].get("hostNetwork") else aliases


_MARK = b"# What follows is kept up to date while the pod runs.\n"
_BLOCK = 64


def create(path: Path, head: Sequence[str], machine: bytes) -> None:
    """Create the file from `head` and the lines of the machine's own hosts file. An existing file is not changed.
    Raises OSError."""
    if path.exists():
        return
    draft = path.with_name(path.name + ".new")
    text = "".join(f"{line}\n" for line in ("# Kubernetes-managed hosts file.", *head)).encode()
    draft.write_bytes(text + machine.rstrip(b"\n") + b"\n" + _MARK)
    draft.chmod(0o644)
    draft.rename(path)


def show(path: Path, lines: Iterable[str]) -> None:
    """Change the variable part of the file to exactly `lines`. Raises OSError."""
    text = path.read_bytes()
    wanted = {line.encode() for line in lines}
    free: dict[int, list[int]] = {}  # length -> offsets
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        for offset, slot in _slots(text):
            line = slot.rstrip()
            if line in wanted:
                wanted.discard(line)
                continue
            if not slot.startswith(b"#"):
                os.pwrite(handle, b"#", offset)
            free.setdefault(len(slot), []).append(offset)
        end = len(text)
        for line in sorted(wanted):
            slot = _slot(line)
            places = free.get(len(slot))
            offset = places.pop() if places else end
            os.pwrite(handle, b"#" + slot[1:], offset)
            os.pwrite(handle, slot[:1], offset)
            end = max(end, offset + len(slot))
    finally:
        os.close(handle)


def _slot(line: bytes) -> bytes:
    """Return the line, padded with spaces to a whole number of blocks, with its newline at the end."""
    length = -(-(len(line) + 1) // _BLOCK) * _BLOCK
    return line.ljust(length - 1) + b"\n"


def _slots(text: bytes) -> Iterable[tuple[int, bytes]]:
    offset = text.index(_MARK) + len(_MARK)
    for slot in text[offset:].splitlines(keepends=True):
        yield offset, slot
        offset += len(slot)
