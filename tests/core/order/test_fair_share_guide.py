"""docs/guide/fair-share.md says nothing that is not so: its scenarios are files of the specification, its table is
computed."""

from __future__ import annotations

import re
from pathlib import Path

from phalanx.fair_tree import classic_fair_share, rank_fair_tree
from tests.test_fair_tree import CAPTURES, FRESH

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "guide" / "fair-share.md").read_text()


def test_its_scenarios_are_those_of_the_specification() -> None:
    shown = re.findall(r"<!-- (\S+) -->\n```\n(.*?)```", GUIDE, flags=re.S)
    assert len(shown) >= 4
    for path, text in shown:
        assert text == (ROOT / path).read_text(), path


def test_its_table_is_what_both_formulas_give() -> None:
    by_tree, by_classic = rank_fair_tree(CAPTURES["fairtree_1"]), classic_fair_share(CAPTURES["classic_1"])
    rows = re.findall(r"^\| (\w+) \| \d of? ?.* \| (\d+) \| (\S+) \| (\S+) \| (\S+) \|$", GUIDE, flags=re.M)
    rows += re.findall(r"^\| (root) \| 1 \| (0) \| (\S+) \| (\S+) \| (\S+) \|$", GUIDE, flags=re.M)
    assert len(rows) == 5
    for user, used, level, tree, other in rows:
        key = (user.rstrip("12"), user)
        assert round(FRESH.get(user, 0.0)) == int(used)
        assert f"{by_tree[key].level:.6f}" == level.replace("inf", f"{float('inf'):.6f}")
        assert (tree, other) == (f"{by_tree[key].factor:.6f}", f"{by_classic[key].factor:.6f}")
