"""A store of images."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.embedded.node.images.store import ImageStore


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "data")
