"""`model/plan.py`: the names of actions in recordings and metrics."""

from __future__ import annotations

from typing import get_args

from phalanx.model.plan import ACTION_NAMES, Action, JobAction, Plan, ReleaseNodes, RequestNodes


def test_every_action_has_a_name_that_stays() -> None:
    """Recordings of earlier versions have these names."""
    assert set(ACTION_NAMES) == set(get_args(Action))
    assert set(ACTION_NAMES.values()) == {
        *("Start", "Place", "Wait", "Preempt", "Shrink", "Promise", "RequestNodes", "ReleaseNodes")
    }


def test_every_action_names_a_job_first() -> None:
    for action in get_args(Action):
        assert action._fields[0] == "job"
    assert set(get_args(Action)) - set(get_args(JobAction)) == {RequestNodes, ReleaseNodes}


def test_an_empty_plan_asks_for_no_cycle() -> None:
    assert Plan() == ((), None, None)
