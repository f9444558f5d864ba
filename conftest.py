"""Options of the test run. They stand here because pytest reads options only from the root and the folders named."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the scenarios decide into their files; then read the diff as the review of a change",
    )
