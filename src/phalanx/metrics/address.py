"""Addresses to listen on, as users write them, and the sockets of servers that start later.

This module imports no server, because the first binding of a scheduler waits for each module imported before it."""

from __future__ import annotations

from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, create_server, socket

from phalanx.errors import PhalanxError


def address(text: str) -> tuple[str, int]:
    """Return host and port of an address such as `127.0.0.1:9090` or `[::1]:9090`. Brackets are optional, because
    `$(POD_IP):9090` has none in a cluster with IPv6. Raises PhalanxError."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or (":" in bare and not _is_ipv6(bare)) or not port.isdecimal() or int(port) > 65535:
        raise PhalanxError(f"{text!r} is no address to listen on: write HOST:PORT, for instance 127.0.0.1:9090")
    return bare, int(port)


def url(where: tuple[str, int]) -> str:
    """Return the URL of the metrics page at an address."""
    return f"http://{place(where)}/metrics"


def place(where: tuple[str, int]) -> str:
    """Return the address as it is written in a URL."""
    host, port = where
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).version == 6
    except ValueError:
        return False


def opened(where: tuple[str, int], option: str) -> socket:
    """Return a socket that listens at the address (port 0 takes any free one). Raises PhalanxError if the port is in
    use."""
    try:
        return create_server(where, family=AF_INET6 if ":" in where[0] else AF_INET, backlog=128)
    except OSError as error:
        raise taken(where, option, error) from error


def taken(where: tuple[str, int], option: str, error: OSError) -> PhalanxError:
    """Return the error for a port that cannot be opened."""
    host, port = where
    return PhalanxError(
        f"cannot listen on {host} port {port}: {error.strerror or error}. Name another address with "
        f"{option} HOST:PORT, or stop whoever holds this one."
    )
