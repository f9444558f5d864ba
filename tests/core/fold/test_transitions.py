"""The table of legal moves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from phalanx.core.fold.transitions import GONE, LATE, STAYS, TRANSITIONS, IllegalTransition, transition
from phalanx.model.event import Finished, Refused, Started
from phalanx.model.job import Phase
from phalanx.model.plan import Place, Start
from phalanx.model.reason import Reason, ReasonCode

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "scheduling.md"


def test_a_life() -> None:
    why = Reason(code=ReasonCode.BACKOFF, text="no")
    assert transition("j", Phase.QUEUED, 0, Start("j", 1, ())) is Phase.STARTING
    assert transition("j", Phase.STARTING, 1, Refused("j", 1, why)) is Phase.QUEUED
    assert transition("j", Phase.STARTING, 2, Started("j", 2)) is Phase.RUNNING
    assert transition("j", Phase.RUNNING, 2, Started("j", 1)) == LATE
    assert transition("j", Phase.RUNNING, 2, Finished("j")) == GONE


def test_an_illegal_move_names_what_is_legal() -> None:
    with pytest.raises(
        IllegalTransition, match=r"job 'j' is queued; Place is not legal here \(legal: Submitted, Wait, Start"
    ):
        transition("j", Phase.QUEUED, 0, Place("j", ()))


def test_a_started_job_is_never_started_again() -> None:
    assert [phase for phase, kind in TRANSITIONS if kind is Start] == [Phase.QUEUED]


def test_every_phase_is_reached_and_left() -> None:
    reached = {outcome for outcome in TRANSITIONS.values() if outcome not in {STAYS, LATE, GONE}}
    assert reached == set(Phase)
    assert {phase for (phase, _), outcome in TRANSITIONS.items() if outcome == GONE} == set(Phase)


def test_the_guide_draws_the_table() -> None:
    drawn = set(re.findall(r"^    (\w+) --> (\w+|\[\*\]): (\w+)", GUIDE.read_text(), re.MULTILINE))
    moves = {
        (phase, outcome, kind.__name__)
        for (phase, kind), outcome in TRANSITIONS.items()
        if outcome not in {STAYS, LATE}
    }
    assert drawn == {(str(phase), "[*]" if to == GONE else str(to), kind) for phase, to, kind in moves}
