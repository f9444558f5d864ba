"""Serve all addresses of services by one socket, to which the kernel redirects their connections (nft(8), dnat).

A socket that listens at a service's address and port would prevent all programs of the machine from listening on that
port at all addresses (bind(2), EADDRINUSE): the service's own pod, other pods, sshd. So any user who may create a
service could block any port. This socket has an unused port, and reads the original destination from the kernel
(SO_ORIGINAL_DST).

Rules of the kernel, by nft(8): loaded, looked for."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from typing import TypeAlias

from phalanx.errors import PhalanxError


async def load(text: str) -> None:
    """Load rules, all or none. Raises PhalanxError."""
    await nft(text, "-f", "-")


async def is_loaded(table: str) -> bool:
    """Return whether the kernel has this table."""
    try:
        await nft(None, "--terse", "list", "table", *table.split())
    except PhalanxError:
        return False
    return True


def without(table: str) -> str:
    """Return the rules that delete a table, whether or not it exists."""
    return f"table {table}\ndelete table {table}\n"


async def nft(text: str | None, *options: str) -> None:
    """Run nft. `text`: its input. Raises PhalanxError if nft is missing, or the kernel refuses the rules."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        reads = nothing if text is None else pipe  # to one that does not read and is over, nothing can be written
        process = await asyncio.create_subprocess_exec("nft", *options, stdin=reads, stdout=nothing, stderr=pipe)
    except OSError as error:
        raise PhalanxError(f"nft(8) cannot be run: {error.strerror}; install nftables") from None
    _, said = await process.communicate(None if text is None else text.encode())
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        raise PhalanxError(
            f"the kernel does not take the rules of the network: {lines[0] if lines else process.returncode}"
        )


log = logging.getLogger(__name__)

TABLE = "inet phalanx-services"
_ORIGINAL_DESTINATION, _ADDRESS = 80, struct.Struct("!2xH4s8x")  # linux/netfilter_ipv4.h, struct sockaddr_in
Place: TypeAlias = tuple[str, int]  # address and port
Accept: TypeAlias = Callable[[Place, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Redirect:
    """The rule of one node. `services`: the network of their addresses."""

    def __init__(self, services: str) -> None:
        self._services, self._rule = services, ""

    async def open(self, accept: Accept) -> asyncio.Server:
        """Redirect connections from now on, and call `accept` with each of them and its original destination. Raises
        OSError, PhalanxError."""

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                place = _asked(writer.get_extra_info("socket"))
            except OSError:  # not redirected: the client connected to the socket's own port
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
        """Load the rule again if something else took it away. Raises PhalanxError."""
        if self._rule and not await is_loaded(TABLE):
            log.warning("something else took the rule of services away (nft): it is loaded again")
            await load(self._rule)


def _asked(connection: socket.socket) -> Place:
    """Raises OSError."""
    port, address = _ADDRESS.unpack(connection.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, _ADDRESS.size))
    return socket.inet_ntoa(address), port
