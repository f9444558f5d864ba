"""`kube/gang/lifecycle/stages.py`: the stages of a gang, each with exactly the fields that have a meaning in it."""

from __future__ import annotations

import pytest

from phalanx.kube.gang.lifecycle.stages import NEXT, Leaving, Running, Starting, Waiting
from phalanx.kube.gang.seats.bind_barrier import Readiness
from tests.kube.gang.recorded_effects import starting, waiting


def test_a_stage_has_its_own_fields_and_no_others() -> None:
    """A pending gang has no preemption, and a gang that never started has no record, so these fields cannot be
    wrong."""
    for kind, fields in {
        Waiting: {"spec"},
        Starting: {"parts", "held"},
        Running: {"parts", "readiness"},
        Leaving: {"parts", "departure"},
    }.items():
        assert set(vars(kind)["__slots__"]) == fields
    _, gang = waiting()
    assert gang.state.parts is None
    assert gang.record is None


def test_only_the_stages_that_may_follow_do() -> None:
    assert NEXT[Leaving] == {Waiting}
    assert Starting not in NEXT[Running]
    assert Leaving not in NEXT[Waiting]
    _, gang = waiting()
    _, other = starting()
    assert isinstance(other.state, Starting)
    parts = other.state.parts
    gang.enter(Starting(parts=parts))
    gang.enter(Running(parts=parts, readiness=Readiness(1.0)))
    with pytest.raises(AssertionError, match="default/j"):
        gang.enter(Starting(parts=parts))
