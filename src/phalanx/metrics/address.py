"""Parse the addresses on which servers listen, and open sockets for servers that start later.

This module does not import the servers, because each import delays the start of the scheduler."""

from __future__ import annotations

from ipaddress import IPv6Address
from socket import AF_INET, AF_INET6, create_server, socket

from phalanx.errors import PhalanxError


def address(text: str) -> tuple[str, int]:
    """Return the host and the port of an address such as `127.0.0.1:9090` or `[::1]:9090`. The brackets are optional,
    because `$(POD_IP):9090` has no brackets in a cluster with IPv6. Raises PhalanxError."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or (":" in bare and not _is_ipv6(bare)) or not port.isdecimal() or int(port) > 65535:
        raise PhalanxError(f"{text!r} is not an address to listen on: write HOST:PORT, for instance 127.0.0.1:9090")
    return bare, int(port)


def url(where: tuple[str, int]) -> str:
    """Return the URL of the metrics page of a server that listens at this address."""
    return f"http://{place(where)}/metrics"


def place(where: tuple[str, int]) -> str:
    """Return the address in the notation of URLs: an IPv6 address has brackets."""
    host, port = where
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def _is_ipv6(text: str) -> bool:
    try:
        return IPv6Address(text).version == 6
    except ValueError:
        return False


def opened(where: tuple[str, int], option: str) -> socket:
    """Return a socket that listens at the address. Port 0 stands for any free port. `option`: the command line option
    that sets the address, for the error message. Raises PhalanxError if the port is in use."""
    try:
        return create_server(where, family=AF_INET6 if ":" in where[0] else AF_INET, backlog=128)
    except OSError as error:
        raise taken(where, option, error) from error


def taken(where: tuple[str, int], option: str, error: OSError) -> PhalanxError:
    """Return the error to raise if a server cannot listen at the address. `option`: the command line option that sets
    the address."""
    host, port = where
    return PhalanxError(
        f"cannot listen on {host} port {port}: {error.strerror or error}. Name another address with {option} "
        "HOST:PORT, or stop the program that uses this address."
    )
