"""`demo/stage.py`: the output of the demo."""

from __future__ import annotations

from phalanx.demo.stage import headline, why
from tests.demo.test_trial import deadlock


def test_what_the_scheduler_says_is_shown() -> None:
    trial = deadlock()
    assert why(trial.applications["app-1"]) == "no room"
    assert "6 of 6 CPUs held, 6 drivers without executors, 12 executors waiting" in headline(trial)
