"""`embedded/node/machine/devices/plugins.py`: device plugins, as the kubelet serves them (v1beta1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phalanx.embedded.node.machine.devices.plugins import SOCKET, serve_plugins
from phalanx.embedded.node.machine.devices.pool import DevicePool
from phalanx.errors import PhalanxError


async def _nothing() -> None:
    return None


def test_a_folder_in_which_others_write_is_refused_and_so_is_a_kubelets(tmp_path: Path) -> None:
    pool = DevicePool({}, _nothing)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)

    async def beside_a_kubelet() -> None:
        server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), str(tmp_path / "own" / SOCKET))
        async with server:
            await serve_plugins(tmp_path / "own", pool)

    (tmp_path / "own").mkdir(mode=0o700)
    for attempt, why in (
        (serve_plugins(tmp_path / "open", pool), "other users may write"),
        (beside_a_kubelet(), "a kubelet"),
    ):
        with pytest.raises(BaseExceptionGroup) as caught:
            asyncio.run(attempt)
        assert caught.group_contains(PhalanxError, match=why)
