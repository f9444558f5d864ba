"""`embedded/node/container/shim/fork_server.py`: shims start with the same Python, and with only this package."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phalanx.embedded.node.container.isolation import find_isolation
from phalanx.embedded.node.container.shim import fork_server

pytestmark = pytest.mark.slow  # real processes


def test_where_no_copy_can_be_made_no_images_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")  # sysctl vm.memfd_noexec=2

    monkeypatch.setattr(os, "memfd_create", refuse)
    fork_server._copied.cache_clear()
    try:
        assert "does not run from a sealed copy in memory" in find_isolation(tmp_path).root_refusal
    finally:
        fork_server._copied.cache_clear()
