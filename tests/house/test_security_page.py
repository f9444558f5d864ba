"""The threat model (docs/guide/security.md): each line names the test that makes the attack, and that test exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_each_attack_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "guide" / "security.md").read_text()
    named = NAMED.findall(page)
    assert len(named) > 10
    for file, test in named:
        assert (ROOT / file).exists(), f"there is no {file}"
        assert not test or f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"
