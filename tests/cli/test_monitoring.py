"""The metrics of a scheduler are served later than its address is opened."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import pytest

from phalanx.cli.cluster import monitoring
from phalanx.cli.cluster.monitoring import monitored
from phalanx.client.connection import Connection
from phalanx.errors import PhalanxError
from phalanx.kube.leader import Lease, LeaseDurations


async def get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


def test_a_request_waits_until_the_server_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(monitoring, "START_S", 0.05)

    async def scene() -> None:
        connection = Connection("http://nowhere.invalid", headers={}, tls=None)
        lease = Lease(connection, "me", terms=LeaseDurations())
        async with monitored(connection, lease, ("127.0.0.1", 0)) as metrics:
            assert metrics is not None
            port = int(capsys.readouterr().err.rpartition(":")[2].split("/")[0])
            page = await asyncio.wait_for(get(port, "/metrics"), 60)
            assert page.startswith("HTTP/1.0 200")
            assert "phalanx_leader 0.0" in page
            assert "has not answered yet" in await asyncio.wait_for(get(port, "/readyz"), 60)
        with pytest.raises(ConnectionError):
            await get(port, "/metrics")

    asyncio.run(scene())


def test_a_port_in_use_is_an_error_before_anything_is_scheduled() -> None:
    async def scene(port: int) -> None:
        connection = Connection("http://nowhere.invalid", headers={}, tls=None)
        lease = Lease(connection, "me", terms=LeaseDurations())
        with pytest.raises(PhalanxError, match="--metrics-address"):
            async with monitored(connection, lease, ("127.0.0.1", port)):
                raise AssertionError("it was entered")

    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        asyncio.run(scene(taken.getsockname()[1]))
