"""Connect to a server through an HTTP proxy with CONNECT (RFC 9110, 9.3.6). TLS is used between this process and the
server, so the proxy cannot read the data.

The `proxy-url` of the kubeconfig, or else the variable HTTPS_PROXY, names the proxy. HTTPS_PROXY is not used for hosts
that NO_PROXY lists (as names, suffixes, addresses or networks), and never for addresses of the local machine. kubectl
follows the same rules, which come from Go's package httpproxy.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import unquote, urlsplit

from phalanx.errors import PhalanxError

_HEAD_BYTES = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProxy:
    """An HTTP proxy. `word`: the credentials for Proxy-Authorization; empty if there are none."""

    host: str
    port: int
    word: str = ""


def find_proxy(server: str, said: str, environment: Mapping[str, str]) -> HttpProxy | None:
    """Return the proxy for a server; None for a direct connection. `said`: the kubeconfig's `proxy-url`. Raises
    PhalanxError for a proxy that is not supported."""
    found = urlsplit(server)
    if not said:
        said = _of(environment, f"{found.scheme}_proxy")
        if not said or _direct(found.hostname or "", _of(environment, "no_proxy")):
            return None
    parts = urlsplit(said if "://" in said else f"http://{said}")
    if parts.scheme != "http" or not parts.hostname:
        raise PhalanxError(
            f"the proxy {parts.scheme}://{parts.hostname} for {server} cannot be used: only http:// "
            f"proxies are supported"
        )
    word = ""
    if parts.username is not None:
        word = base64.b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()).decode()
    return HttpProxy(host=parts.hostname, port=parts.port or 80, word=word)


def _of(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _direct(host: str, rules: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(host, rule.strip().lower()) for rule in rules.split(",") if rule.strip())


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _matches(host: str, rule: str) -> bool:
    if rule == "*":
        return True
    address = _address(host)
    if address is not None:
        try:
            return address in ip_network(rule, strict=False)
        except ValueError:
            return False
    suffix = rule.removeprefix("*")
    return host == suffix.removeprefix(".") or host.endswith(suffix if suffix.startswith(".") else f".{suffix}")


async def tunnel(proxy: HttpProxy, host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the server through the proxy. Raises ConnectionError, OSError."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    found = socket.socket(infos[0][0], socket.SOCK_STREAM)
    try:
        found.setblocking(False)
        await loop.sock_connect(found, infos[0][4])
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        word = f"proxy-authorization: Basic {proxy.word}\r\n" if proxy.word else ""
        await loop.sock_sendall(found, f"CONNECT {where} HTTP/1.1\r\nhost: {where}\r\n{word}\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES:
            # Read no byte after the head of the proxy's response, because all later bytes come from the server.
            more = await loop.sock_recv(found, 1)
            if not more:
                break
            head += more
        status = head.split(b"\r\n", 1)[0].split(b" ")
        if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not status[1].startswith(b"2"):
            said = head.split(b"\r\n", 1)[0].decode(errors="replace") or "nothing"
            raise ConnectionError(f"the proxy {proxy.host}:{proxy.port} refused to connect to {where}: {said}")
    except BaseException:
        found.close()
        raise
    return found
