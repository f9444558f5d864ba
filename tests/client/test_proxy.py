"""The choice of the proxy, and the encryption of the data that passes through it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.client.access.proxy import HttpProxy, find_proxy
from phalanx.client.http import Http
from phalanx.errors import PhalanxError
from tests.client.test_http import get, ok

EVERY = {"HTTPS_PROXY": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("server", "rules", "direct"),
    [
        ("https://api.example:6443", "", False),
        ("https://api.example:6443", "example", True),
        ("https://api.example:6443", ".example,other", True),
        ("https://api.example:6443", "ample", False),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "*", True),
        ("https://127.0.0.1:1", "", True),
        ("https://localhost:1", "", True),
    ],
)
def test_hosts_that_need_none(server: str, rules: str, direct: bool) -> None:
    assert (find_proxy(server, "", {**EVERY, "NO_PROXY": rules}) is None) == direct


def test_what_the_kubeconfig_says_counts_first() -> None:
    found = find_proxy("https://127.0.0.1", "http://me:a%20b@other", EVERY)
    assert found == HttpProxy(host="other", port=80, word="bWU6YSBi")


@pytest.mark.parametrize("said", ["socks5://x:1", "https://x", "http://"])
def test_one_that_cannot_be_used_is_refused(said: str) -> None:
    with pytest.raises(PhalanxError, match="only http:// proxies are supported"):
        find_proxy("https://api.example", said, {})


def through(answer: bytes) -> tuple[Any, list[str]]:
    """A call to `api.example:80` through a proxy that answers CONNECT so; what the proxy was told."""
    told: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.extend((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:3])
        writer.write(answer)
        if b"200" in answer:
            told.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0])
            writer.write(ok(b"there"))
        await writer.drain()
        writer.close()

    async def scene() -> Any:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        proxy = HttpProxy(host="127.0.0.1", port=server.sockets[0].getsockname()[1], word="abc")
        try:
            return (await get(Http("http://api.example", tls=None, limit=1, proxy=proxy))).body
        finally:
            server.close()

    return asyncio.run(scene()), told


def test_the_server_is_spoken_to_through_it() -> None:
    body, told = through(b"HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\n")
    assert body == b"there"
    assert told == [
        "CONNECT api.example:80 HTTP/1.1",
        "host: api.example:80",
        "proxy-authorization: Basic abc",
        "GET /a HTTP/1.1",
    ]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", b"", b"SSH-2.0\r\n\r\n"])
def test_a_proxy_that_does_not_connect_is_named(answer: bytes) -> None:
    with pytest.raises(ConnectionError, match=r"the proxy 127\.0\.0\.1:\d+ refused to connect to api\.example:80"):
        through(answer)
