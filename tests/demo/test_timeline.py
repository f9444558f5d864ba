"""`demo/stage.py`: the timeline of a trial as bars, one line per application, for the terminal and as a picture."""

from __future__ import annotations

from phalanx.demo.stage import Doing, Span, bar, spans
from phalanx.demo.trial import TrialApplication
from tests.demo.test_trial import new_trial, pod, tell


def test_an_application_waits_holds_and_works() -> None:
    trial = new_trial()
    trial.take(pod("app-1", 0, "Running"), 2.0)
    tell(trial, "app-1", (3.0, "Running"), (5.0, "Succeeded"))
    found = spans(trial.applications["app-1"], 8.0)
    assert found == [Span(Doing.WAITS, 0.0, 2.0), Span(Doing.HOLDS, 2.0, 3.0), Span(Doing.WORKS, 3.0, 5.0)]
    assert "".join(text for text, _ in bar(trial.applications["app-1"], 8.0, 10.0, 20)) == "....!!####"


def test_one_that_never_started_waits_to_the_end() -> None:
    assert spans(TrialApplication(name="app-1"), 8.0) == [Span(Doing.WAITS, 0.0, 8.0)]
