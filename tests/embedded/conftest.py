"""Servers for the tests of `embedded/`: one real process per session, and one without a socket per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.apiserver.process import ServerProcess


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """An API server in a process of its own, on a free loopback port; shared, so use a namespace of your own."""
    with ServerProcess.started(tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"
