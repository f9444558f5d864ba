"""Serve the services with a cluster IP on one machine. For each port of a service, listen on a TCP port, and forward
the connections to a ready pod.

All addresses in 127.0.0.0/8 belong to this machine. So the service with the cluster IP 10.96.x.y gets the address
127.96.x.y without a change of the machine's network, and the name of the service resolves to this address (see
`names`). The connections of a service are distributed over its pods round-robin, as in kube-proxy's former userspace
mode. The service `kubernetes` in `default` forwards to the API server.

The connections of each service, and of all services together, are bounded, because the scheduler in the same process
also needs file descriptors.

Ports below 1024 need root. If a port cannot be opened, an error is logged once; the service's name still resolves. If
the kernel supports redirects, all services share one socket instead (see `Redirect`).

`Redirect` serves the addresses of all services with one socket: the kernel redirects all their connections to it
(nft(8), dnat).

A socket that listens at a service's address and port would block that port for programs that listen on all addresses of
the machine (bind(2), EADDRINUSE), for example the service's own pod, other pods, or sshd. So every user with the right
to create services could block any port of the machine. The socket of `Redirect` has an otherwise unused port. The
kernel reports the original destination of each connection (SO_ORIGINAL_DST).

The functions `load`, `is_loaded` and `nft` call nft(8) to load rules into the kernel, and to check that they are
loaded."""

from __future__ import annotations

import asyncio
import itertools
import logging
import resource
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from ipaddress import ip_network
from typing import TypeAlias

from phalanx.errors import PhalanxError


async def load(text: str) -> None:
    """Load the rules into the kernel. If one rule is refused, no rule is loaded. Raises PhalanxError."""
    await nft(text, "-f", "-")


async def is_loaded(table: str) -> bool:
    """Return True if the kernel has this table."""
    try:
        await nft(None, "--terse", "list", "table", *table.split())
    except PhalanxError:
        return False
    return True


def without(table: str) -> str:
    """Return rules that delete a table if it exists."""
    return f"table {table}\ndelete table {table}\n"


async def nft(text: str | None, *options: str) -> None:
    """Run nft. `text`: its input. Raises PhalanxError if nft is missing, or the kernel refuses the rules."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        reads = nothing if text is None else pipe  # the program may end without reading its input
        process = await asyncio.create_subprocess_exec("nft", *options, stdin=reads, stdout=nothing, stderr=pipe)
    except OSError as error:
        raise PhalanxError(f"nft(8) cannot be run: {error.strerror}; install nftables") from None
    _, said = await process.communicate(None if text is None else text.encode())
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        raise PhalanxError(f"the kernel refuses the network rules: {lines[0] if lines else process.returncode}")


log = logging.getLogger(__name__)

TABLE = "inet phalanx-services"
_ORIGINAL_DESTINATION, _ADDRESS = 80, struct.Struct("!2xH4s8x")  # linux/netfilter_ipv4.h, struct sockaddr_in
Place: TypeAlias = tuple[str, int]  # address and port
Accept: TypeAlias = Callable[[Place, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Redirect:
    """The kernel rule of one node that redirects the connections to services. `services`: the network of the services'
    addresses."""

    def __init__(self, services: str) -> None:
        self._services, self._rule = services, ""

    async def open(self, accept: Accept) -> asyncio.Server:
        """Start to redirect connections. Call `accept` with each connection and its original destination. Raises
        OSError, PhalanxError."""

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                place = _asked(writer.get_extra_info("socket"))
            except OSError:  # the client connected directly to the port of this socket
                writer.transport.abort()
            else:
                await accept(place, reader, writer)

        door = str(ip_network(self._services)[-2])
        server = await asyncio.start_server(accepted, door, 0)
        port = server.sockets[0].getsockname()[1]
        rule = f"ip daddr {self._services} meta l4proto tcp dnat ip to {door}:{port}"
        chain = f"chain output {{\n type nat hook output priority -100; policy accept;\n {rule}\n}}"
        self._rule = f"{without(TABLE)}table {TABLE} {{\n{chain}\n}}\n"
        try:
            await load(self._rule)
        except BaseException:
            self._rule = ""
            server.close()
            raise
        return server

    async def restore(self) -> None:
        """Load the rule again if another program deleted it. Raises PhalanxError."""
        if self._rule and not await is_loaded(TABLE):
            log.warning("another program deleted the rule for services (nft); it is loaded again")
            await load(self._rule)


def _asked(connection: socket.socket) -> Place:
    """Return the original destination of a redirected connection. Raises OSError."""
    port, address = _ADDRESS.unpack(connection.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, _ADDRESS.size))
    return socket.inet_ntoa(address), port


Targets: TypeAlias = tuple[Place, ...]
_CHUNK_BYTES = 1 << 16
# the maximum number of connections of a service, and the number of open files per connection
_MOST_OF_ONE, _FILES_OF_ONE = 1024, 2


def most_connections() -> int:
    """Return the limit on the connections of all services together. This number of connections uses at most half of the
    file descriptors of this process. The process does not raise its own limit on file descriptors, because pods would
    inherit it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft // 2 // _FILES_OF_ONE


class Forwarder:
    """Listens on the address and port of each service, or on one socket for all services (`redirect`)."""

    def __init__(self, redirect: Redirect | None = None, most: int | None = None) -> None:
        """`most`: the maximum number of connections of all services together; None: the result of
        `most_connections`."""
        self._redirect = redirect
        self._door: asyncio.Server | None = None
        self._targets: Mapping[Place, Targets] = {}
        self._servers: dict[Place, asyncio.Server] = {}
        self._refused: set[Place] = set()
        self._turn = itertools.count()
        self._open: Counter[str] = Counter()  # address of a service -> number of its connections
        self._most = most_connections() if most is None else most

    async def show(self, targets: Mapping[Place, Targets]) -> None:
        """Set the service addresses, with their targets. A connection to an address is forwarded to one of its
        targets."""
        self._targets = targets
        await self._open_door()
        if self._door is not None:
            return
        for place in self._servers.keys() - targets.keys():
            self._servers.pop(place).close()
        self._refused &= targets.keys()
        for place in targets.keys() - self._servers.keys() - self._refused:
            await self._listen(place)

    async def _open_door(self) -> None:
        if self._redirect is None or self._door is not None:
            return
        try:
            self._door = await self._redirect.open(self._pass_on)
        except (OSError, PhalanxError) as error:
            self._redirect = None
            log.warning("programs of this machine cannot listen on the port of a service at all addresses: %s", error)

    async def _listen(self, place: Place) -> None:
        try:
            self._servers[place] = await asyncio.start_server(self._accept(place), *place)
        except OSError as error:
            self._refused.add(place)
            why = "ports below 1024 need root" if isinstance(error, PermissionError) else str(error.strerror or error)
            log.warning("the service at %s:%d is not reachable by its name: %s", *place, why)

    def close(self) -> None:
        for server in (*self._servers.values(), *filter(None, [self._door])):
            server.close()

    def _accept(self, place: Place) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._pass_on(place, reader, writer)

        return accept

    async def _pass_on(self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        targets = self._targets.get(place)
        if targets is None or not self.take(place[0]):
            writer.transport.abort()
            return
        try:
            if targets:
                await _join(reader, writer, targets[next(self._turn) % len(targets)])
        except OSError:  # no program listens, or one side has disconnected; the client's connection is closed
            pass
        finally:
            writer.close()
            self.give_back(place[0])

    def take(self, address: str) -> bool:
        """If the service at `address` may have another connection, count this connection and return True. It may have
        another connection if the limit for all services is not reached, or if it has fewer connections than an equal
        share of this limit."""
        mine = self._open[address]
        others = len(self._open) - (address in self._open)
        may = mine < _MOST_OF_ONE and (self._open.total() < self._most or mine < self._most // (others + 1))
        if may:
            self._open[address] += 1
        return may

    def give_back(self, address: str) -> None:
        """Record that a connection of the service at `address` has ended."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Place) -> None:
    """Copy bytes in both directions until both sides have closed the connection. Raises OSError."""
    from_pod, to_pod = await asyncio.open_connection(*target)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(reader, to_pod))
            group.create_task(_copy(from_pod, writer))
    except* OSError:
        pass
    finally:
        to_pod.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK_BYTES):
        sink.write(data)
        await sink.drain()
    with suppress(OSError):
        sink.write_eof()
