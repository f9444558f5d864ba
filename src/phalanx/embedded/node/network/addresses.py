"""The addresses of this machine's pods and services: parts of 127.0.0.0/8, all of which is this machine.

Every pod has its own address, so that two pods may listen on the same port, and so has every service with a cluster IP.
A node on this machine claims a pair of networks for as long as it runs. Numbers 0 to 31 are for users. A user claims
one by a socket in the abstract namespace (unix(7)), which the kernel removes with its process. Any user may take such a
name, so root has its own numbers, 32 to 63, claimed by a lock on a file in a folder that only root may write.
"""

from __future__ import annotations

import fcntl
import os
import socket
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from phalanx.errors import PhalanxError

_MOST = 32  # clusters of root, and clusters of all other users
_PODS, _SERVICES = IPv4Address("127.64.0.0"), IPv4Address("127.96.0.0")
_SIZE = 1 << 16
_ROOTS = 64 * _SIZE  # root's addresses begin at 127.128.0.0, others' at 127.160.0.0
_CLAIMS = Path("/run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """127.(64 + number).0.0/16 for pods, 127.(96 + number).0.0/16 for services; of root, whose numbers begin at 32,
    127.(96 + number).0.0/16 and 127.(128 + number).0.0/16."""

    number: int

    @property
    def _offset(self) -> int:
        return self.number % _MOST * _SIZE + (_ROOTS if self.number >= _MOST else 0)

    def pod_address(self, taken: Iterable[str], after: str = "") -> str | None:
        """Return the first free address after `after`, so that an address is not reused soon after its pod has ended;
        None if all are taken."""
        used, first = set(taken), _PODS + self._offset
        last = int(IPv4Address(after)) - int(first) if after else 0
        begin = last if 0 < last < _SIZE - 1 else 0
        order = (1 + (begin + step) % (_SIZE - 2) for step in range(_SIZE - 2))
        return next((text for at in order if (text := str(first + at)) not in used), None)

    def service_address(self, cluster_ip: str) -> str:
        """Return the local address of the service with the ClusterIP `cluster_ip`; empty if that is not an address."""
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
    """Claim a pair of networks in this context, and yield it. After a restart it is the same pair, unless another
    cluster has claimed that in the meantime. `claims`: the folder of the lock files by which root claims networks.
    Raises PhalanxError."""
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
    """Lock the file until `held` is left, or this process ends. Raises BlockingIOError where another has it,
    PhalanxError."""
    try:
        handle = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        why = f"{claim}, by which a node has its addresses, cannot be opened: {error.strerror}"
        raise PhalanxError(f"{why}. Let root write to {claim.parent}, or start it as another user") from None
    held.callback(os.close, handle)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
