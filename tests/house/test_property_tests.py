"""Property tests have the same examples in every run (docs/decisions/0019-tests.md)."""

from __future__ import annotations

import pytest
from hypothesis.internal.conjecture.providers import HypothesisProvider


def test_no_example_is_taken_from_the_source_of_imported_modules(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("hypothesis_profile") is not None:
        pytest.skip("another profile may take examples from the source")
    assert len(HypothesisProvider(None)._local_constants) == 0
