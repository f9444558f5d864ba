"""The core decides small random worlds by the rules: the reference judges the plan of every cycle.

PHALANX_WORLDS sets the number of worlds (2,000 without it; `make fuzz` plays 100,000). In an eighth more worlds, queues
guarantee memory as well. In another eighth, inner queues have the orders `tiered` and `fill` as well. A world that
breaks a rule is shrunk, and the failure shows it as a scenario file. `KNOWN` lists the worlds that break a rule today.
Seeds are removed from this list, never added. The command `python -m tests.reference FIRST LAST` plays worlds by hand
and prints the list."""

from __future__ import annotations

import os

import pytest

from tests.seeds import mostly_slow

from .known import KNOWN
from .play import Report, play
from .scenario import breaks_rule, shrunk, written
from .worlds import THREE, TWO

WORLDS = int(os.environ.get("PHALANX_WORLDS", "2000"))
BLOCK = 100  # worlds per test
SHOWN = 3  # shrunk worlds in a failure
SEEDS = [seed for first in (TWO, THREE) for seed in range(first, first + WORLDS // 8)]
SEEDS += range(WORLDS)


@pytest.mark.parametrize("first", mostly_slow(range(0, len(SEEDS), BLOCK), fast=1, sample=3))
def test_no_world_breaks_a_rule_but_those_known(first: int) -> None:
    reports = [play(seed) for seed in SEEDS[first : first + BLOCK]]
    broken = [each for each in reports if each.rule and each.seed not in KNOWN.get(each.rule, ())]
    assert not broken, "\n\n".join(map(shown, broken[:SHOWN]))


def test_known_worlds_are_few() -> None:
    assert sum(map(len, KNOWN.values())) == 0, "the list of worlds that break a rule only becomes shorter"


def shown(report: Report) -> str:
    """Return the smallest trace found that breaks the same rule, as a scenario file."""
    turns = shrunk(report.turns, report.policy, breaks_rule(report.rule))
    return written(turns, report.policy, f"{report.rule}: {report.text} (seed {report.seed})")
