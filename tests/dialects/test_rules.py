"""The rules of other schedulers: `RULES.tsv` names existing tests and headings for each.

The column `ours` states whether Phalanx decides the same, differs on purpose, or lacks the rule. A rule that differs,
or has no effect, is on the dialect's page.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RULES = [line.split("\t") for line in (HERE / "RULES.tsv").read_text().splitlines()[1:]]
OURS = {"same", "differs", "no effect"}


@lru_cache
def proofs(path: str) -> frozenset[str]:
    """The tests of a module, or the headings of a page."""
    text = (ROOT / path).read_text()
    form = r"^#+ (.+)$" if path.endswith(".md") else r"^(?:async )?def (test_\w+)"
    return frozenset(re.findall(form, text, re.MULTILINE))


@pytest.mark.parametrize("dialect", sorted({rule[0] for rule in RULES}))
def test_every_rule_is_proven_by_a_test_or_said_on_a_page_that_is_there(dialect: str) -> None:
    mine = [rule for rule in RULES if rule[0] == dialect]
    assert len({rule for _, rule, _, _ in mine}) == len(mine), "a rule stands once"
    for _, rule, ours, where in mine:
        assert ours in OURS, rule
        if where.startswith("tests/scenarios/"):
            assert (ROOT / where).is_file(), f"{rule}: there is no {where}"
            continue
        path, name = where.split("::" if "::" in where else "#", 1)
        assert name in proofs(path), f"{rule}: there is no {where}"
