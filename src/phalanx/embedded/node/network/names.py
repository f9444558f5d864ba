"""Compute the names that the pods of this node can resolve: services, and pods with a host name below a headless
service.

The names are those of the DNS specification of Kubernetes (github.com/kubernetes/dns, docs/specification.md), with the
shorter forms that a pod's search path allows. A headless service resolves to the addresses of its ready pods, or of all
pods with `publishNotReadyAddresses`. A service with a cluster IP resolves to the address at which the node forwards to
one of its pods (see `forward`). The functions compute records from pods and services, and have no side effects.

Pods of other nodes have no address on this machine, so the records contain only this node's pods.

`create` and `show` write the file /etc/hosts of a pod. Programs in the pod may read the file at the same time. The file
is mounted into containers, so it must be changed in place. Each line is padded to a whole number of blocks, so that no
program reads a half-written line. A new line is first written as a comment. The line takes effect when its first byte,
the comment sign, is overwritten. A line is removed by writing the comment sign again. So a concurrent reader sees
either the old or the new state. The space of removed lines is reused, so the file does not grow with the number of past
pods.

`Networks` assigns addresses in 127.0.0.0/8 to pods and services. All addresses in this network belong to the machine.
Every pod has its own address, so that two pods may listen on the same port. Every service with a cluster IP has its own
address as well. A node on this machine claims a pair of networks, one for pods and one for services, for as long as it
runs. Each pair has a number. A node of a user claims one of the numbers 0 to 31 by a socket in the abstract namespace
(unix(7)), which the kernel removes when the process ends. Any user could take such a name, so root has its own numbers,
32 to 63. A node of root claims a number by a lock on a file in a folder that only root may write."""

from __future__ import annotations

import fcntl
import os
import socket
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Any

from phalanx.errors import PhalanxError

# the maximum number of nodes that root can run, and the maximum number that all other users together can run
_MOST = 32
_PODS, _SERVICES = IPv4Address("127.64.0.0"), IPv4Address("127.96.0.0")
_SIZE = 1 << 16
_ROOTS = 64 * _SIZE  # the networks of root's nodes begin at 127.128.0.0 (pods) and 127.160.0.0 (services)
_CLAIMS = Path("/run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """A pair of networks: 127.(64 + number).0.0/16 for pods, and 127.(96 + number).0.0/16 for services. The numbers
    from 32 on belong to root; their networks are 127.(96 + number).0.0/16 and 127.(128 + number).0.0/16."""

    number: int

    @property
    def _offset(self) -> int:
        return self.number % _MOST * _SIZE + (_ROOTS if self.number >= _MOST else 0)

    def pod_address(self, taken: Iterable[str], after: str = "") -> str | None:
        """Return the first free address after `after`; None if all are taken. The search begins after the last assigned
        address, so that the address of an ended pod is not reused soon."""
        used, first = set(taken), _PODS + self._offset
        last = int(IPv4Address(after)) - int(first) if after else 0
        begin = last if 0 < last < _SIZE - 1 else 0
        order = (1 + (begin + step) % (_SIZE - 2) for step in range(_SIZE - 2))
        return next((text for at in order if (text := str(first + at)) not in used), None)

    def service_address(self, cluster_ip: str) -> str:
        """Return the local address of the service with the ClusterIP `cluster_ip`; "" if `cluster_ip` is not an
        address."""
        try:
            within = int(IPv4Address(cluster_ip)) % _SIZE
        except AddressValueError:
            return ""
        return str(_SERVICES + self._offset + within)

    @property
    def services(self) -> str:
        """Return the network of the services' addresses."""
        return f"{_SERVICES + self._offset}/16"

    @property
    def api_address(self) -> str:
        """Return the address of the service `kubernetes`."""
        return self.service_address("10.96.0.1")


@contextmanager
def networks(data_dir: Path, claims: Path = _CLAIMS) -> Iterator[Networks]:
    """Claim a pair of networks while this context is open, and yield it. After a restart, the node gets the same pair
    again unless another cluster has claimed this pair in the meantime. `claims`: the folder of the lock files by which
    root claims networks. Raises PhalanxError."""
    first = zlib.crc32(str(data_dir.resolve()).encode()) % _MOST
    is_root = os.geteuid() == 0
    for step in range(_MOST):
        number = (first + step) % _MOST + (_MOST if is_root else 0)
        with ExitStack() as held:
            try:
                if is_root:
                    _lock(claims / f"phalanx-node-{number}.lock", held)
                else:
                    held.enter_context(socket.socket(socket.AF_UNIX)).bind(f"\0phalanx-node-{number}")
            except OSError:
                continue
            yield Networks(number=number)
            return
    raise PhalanxError(f"{_MOST} nodes run on this machine already, and there are no addresses for more: stop one")


def _lock(claim: Path, held: ExitStack) -> None:
    """Lock the file until the context `held` ends, or this process ends. Raises BlockingIOError if another process has
    the lock, and PhalanxError if the file cannot be opened."""
    try:
        handle = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        why = f"{claim}, by which a node has its addresses, cannot be opened: {error.strerror}"
        raise PhalanxError(f"{why}. Let root write to {claim.parent}, or start it as another user") from None
    held.callback(os.close, handle)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


Object = Mapping[str, Any]
ZONE = "cluster.local"
_LABEL_MOST = 63  # the maximum length of a host name; the kernel allows 64
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
    """Return the DNS records of the services, and of their pods that have host names. `pods`: the pods with their
    addresses."""
    found = dict[Record, None]()  # a dictionary as an ordered set
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


# --- names that a pod has for itself --------------------------------------------------------------------------------


def host_name(pod: Object) -> str:
    """Return the host name of the pod, which hostname(1) prints in the pod, by the kubelet's rules
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

    The name of the pod's node is one of these names. Programs that get the list of their job's nodes (as in Slurm)
    check whether the first node is their own machine. If so, they listen at this name."""
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
    """Change the variable part of the file so that it has exactly the given lines. Raises OSError."""
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
