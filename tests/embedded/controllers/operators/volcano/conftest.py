"""Volcano's kinds are served before the controllers begin."""

from __future__ import annotations

import asyncio

import pytest

from phalanx.client.connection import Connection
from phalanx.dialects.volcano.dialect import VOLCANO
from phalanx.kube.install.definitions import install_dialect
from tests.embedded.apiserver.process import ServerProcess


@pytest.fixture
def volcano_server(api_server: ServerProcess) -> ServerProcess:
    async def install() -> None:
        async with await Connection.open(api_server.kubeconfig) as api:
            await install_dialect(api, VOLCANO)

    asyncio.run(install())
    return api_server
