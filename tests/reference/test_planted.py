"""Check the planted bugs: each of them changes exactly one place of today's code."""

from __future__ import annotations

import pytest

from .planted import BUGS, OBJECT_BUGS, ROOT, Bug


@pytest.mark.parametrize("bug", [*BUGS, *OBJECT_BUGS], ids=lambda bug: bug.text)
def test_each_bug_changes_one_place(bug: Bug) -> None:
    assert (ROOT / "src" / "phalanx" / bug.path).read_text().count(bug.right) == 1
