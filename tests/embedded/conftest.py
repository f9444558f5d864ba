"""What the tests of `embedded/` share; the server itself is in `tests/conftest.py`."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"
