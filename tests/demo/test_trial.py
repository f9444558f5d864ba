"""What the demo sees, and what it concludes, from pods as the API shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.demo.play import DemoResult
from phalanx.demo.stage import bars, conclusion, draw
from phalanx.demo.trial import APPLICATIONS, EXECUTORS, DemoPodState, Trial, TrialApplication, driver, executor
from phalanx.demo.words import Summary
from phalanx.errors import PhalanxError

NAMES = [f"app-{number}" for number in range(1, APPLICATIONS + 1)]


def new_trial(queue: str = "gangs") -> Trial:
    return Trial(name=queue, queue=queue, cpus=6, applications={name: TrialApplication(name=name) for name in NAMES})


def pod(name: str, number: int, phase: str, node: str = "here", message: str = "") -> dict[str, Any]:
    """The driver (0) or an executor of an application."""
    found = driver(name, "demo", "gangs", "gangs")
    found["metadata"]["uid"] = name
    if number:
        found = executor(found, number, "127.0.0.1:1", "token")
    found["spec"]["nodeName"] = node
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return {**found, "status": {"phase": phase, "conditions": [condition] if message else []}}


def tell(trial: Trial, name: str, *phases: tuple[float, str]) -> None:
    """Driver and executors of the application go through the phases together."""
    for at_s, phase in phases:
        for number in range(EXECUTORS + 1):
            trial.take(pod(name, number, phase), at_s)
        trial.seconds = at_s


def deadlock() -> Trial:
    trial = new_trial("pod-by-pod")
    for name in NAMES:
        trial.take(pod(name, 0, "Running"), 1.0)
        for number in range(1, EXECUTORS + 1):
            trial.take(pod(name, number, "Pending", node="", message="no room"), 2.0)
    trial.seconds, trial.deadlocked = 6.0, True
    return trial


def test_six_drivers_on_six_cpus_and_twelve_waiting_executors_are_stuck() -> None:
    trial = deadlock()
    assert (trial.held, trial.idle_drivers, trial.waiting_executors, trial.finished) == (6, 6, 12, 0)
    assert trial.stuck
    assert conclusion(trial).startswith("Deadlock: all 6 CPUs hold 6 drivers, each waits for 2 executors, the 12 exec")


def test_one_executor_at_work_is_no_deadlock() -> None:
    trial = deadlock()
    trial.take(pod("app-1", 1, "Running"), 3.0)
    assert not trial.stuck


def test_drivers_that_have_not_asked_yet_are_no_deadlock() -> None:
    trial = new_trial()
    for name in NAMES:
        trial.take(pod(name, 0, "Running"), 1.0)
    assert not trial.stuck


def test_seeing_the_same_twice_is_no_change() -> None:
    trial = new_trial()
    trial.take(pod("app-1", 0, "Running"), 1.0)
    trial.take(pod("app-1", 0, "Running"), 9.0)
    assert trial.changed_s == 1.0
    assert trial.applications["app-1"].pods[0].moments == [(1.0, DemoPodState.RUNNING)]


def test_the_timeline_says_who_finished() -> None:
    trial = new_trial()
    tell(trial, "app-1", (1.0, "Running"), (4.0, "Succeeded"))
    text = bars([("as gangs", trial)], 80).plain.splitlines()
    assert text[1].startswith("  app-1   ")
    assert text[1].endswith("# finished")
    assert text[2].endswith(". unfinished")


@pytest.mark.slow  # importing matplotlib takes a second or two
@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_timeline_is_drawn(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "pictures" / f"timeline{suffix}"
    draw([("pod by pod", deadlock()), ("as gangs", new_trial())], path)
    assert path.stat().st_size > 5_000


@pytest.mark.slow
def test_a_timeline_that_cannot_be_drawn_says_so(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"cannot write the timeline to .*--timeline"):
        draw([("pod by pod", deadlock()), ("as gangs", new_trial())], tmp_path / "timeline.nothing")


def summary(digest: str) -> Summary:
    return Summary(words=1, distinct=1, most_common=[("the", 1)], digest=digest)


def verdict(right: int) -> DemoResult:
    gangs = new_trial()
    for name in NAMES:
        tell(gangs, name, (1.0, "Running"), (4.0, "Succeeded"))
    counts = {name: summary("right" if number < right else "wrong") for number, name in enumerate(NAMES)}
    return DemoResult(without=deadlock(), gangs=gangs, counts=counts, reference=summary("right"))


def test_the_verdict_holds_only_with_a_deadlock_six_finishers_and_six_right_counts() -> None:
    assert verdict(right=6).holds
    assert not verdict(right=5).holds
    unlocked = verdict(right=6)
    unlocked.without.deadlocked = False
    assert not unlocked.holds
