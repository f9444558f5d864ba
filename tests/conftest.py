"""The API server for whoever needs one: a real process, one per session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.embedded.apiserver.process import ServerProcess


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """An API server on a free loopback port: `url`, `ca`, `token`, `kubeconfig`, `ask`. It is shared, so use a
    namespace of your own."""
    with ServerProcess.started(tmp_path_factory.mktemp("apiserver")) as server:
        yield server
