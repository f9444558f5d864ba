"""The addresses of this machine's pods and services: parts of 127.0.0.0/8, all of which is this machine.

Every pod has one of its own, so that two may listen on one port, and every service with a cluster IP. Whoever runs a
node on this machine takes a pair of networks that nobody else has, for as long as it lives: numbers 0 to 31, claimed by
a socket in the abstract namespace (unix(7)), which goes with its owner and is as private as the loopback device.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from phalanx.errors import PhalanxError

_MOST = 32
_PODS, _SERVICES = IPv4Address("127.64.0.0"), IPv4Address("127.96.0.0")
_SIZE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """127.(64 + number).0.0/16 for pods, 127.(96 + number).0.0/16 for services."""

    number: int

    def pod_address(self, taken: Iterable[str], after: str = "") -> str | None:
        """A free one, the first after `after`: an address comes back late, when nobody remembers who had it."""
        used, first = set(taken), _PODS + self.number * _SIZE
        last = int(IPv4Address(after)) - int(first) if after else 0
        begin = last if 0 < last < _SIZE - 1 else 0
        order = (1 + (begin + step) % (_SIZE - 2) for step in range(_SIZE - 2))
        return next((text for at in order if (text := str(first + at)) not in used), None)

    def service_address(self, cluster_ip: str) -> str:
        """Where the service at 10.96.x.y is answered; empty for one that has no such address."""
        try:
            within = int(IPv4Address(cluster_ip)) % _SIZE
        except AddressValueError:
            return ""
        return str(_SERVICES + self.number * _SIZE + within)

    @property
    def api_address(self) -> str:
        """Of the service `kubernetes`."""
        return self.service_address("10.96.0.1")


@contextmanager
def networks(data_dir: Path) -> Iterator[Networks]:
    """A pair of its own; the same after a restart, unless others are many. Raises PhalanxError."""
    first = zlib.crc32(str(data_dir.resolve()).encode()) % _MOST
    with socket.socket(socket.AF_UNIX) as claim:
        for step in range(_MOST):
            number = (first + step) % _MOST
            try:
                claim.bind(f"\0phalanx-node-{number}")
            except OSError:
                continue
            yield Networks(number=number)
            return
    raise PhalanxError(f"{_MOST} nodes run on this machine already, and there are no addresses for more: stop one")
