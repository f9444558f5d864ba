"""What a scraper and the kubelet get, over HTTP."""

from __future__ import annotations

import asyncio
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.registry import CollectorRegistry

from phalanx.errors import PhalanxError
from phalanx.metrics.serving import serving

ANY_PORT = ("127.0.0.1", 0)


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=240) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def asked(found: CollectorRegistry, path: str, *, healthy: str = "", ready: str = "") -> tuple[int, str]:
    async def scene() -> tuple[int, str]:
        async with serving(ANY_PORT, found, lambda: healthy, lambda: ready) as port:
            return await asyncio.to_thread(fetch, port, path)

    return asyncio.run(scene())


def test_health_is_said_in_a_line() -> None:
    empty = CollectorRegistry()
    assert asked(empty, "/healthz") == (200, "ok\n")
    assert asked(empty, "/healthz", healthy="the lease has run out") == (503, "the lease has run out\n")
    assert asked(empty, "/readyz", ready="no answer") == (503, "no answer\n")
    assert asked(empty, "/")[0] == 404


def test_a_port_that_is_taken_is_said() -> None:
    async def scene() -> None:
        async with serving(ANY_PORT, CollectorRegistry(), str, str) as port:
            with pytest.raises(PhalanxError, match=f"port {port}"):
                async with serving(("127.0.0.1", port), CollectorRegistry(), str, str):
                    pass

    asyncio.run(scene())
