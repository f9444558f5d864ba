"""The phases of an AppWrapper: the transitions, and the conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.appwrapper.phases import (
    Do,
    ObservedComponents,
    PhaseStep,
    RetrySettings,
    settings_of,
    step,
)

SETTINGS = settings_of({})
NOTHING = ObservedComponents(pods=(), expected=2, missing=["Job j"])


def pods(**phases: int) -> list[Object]:
    """Return the given number of pods in each phase."""
    return [
        {"metadata": {"uid": f"{name}{n}"}, "status": {"phase": name}} for name in phases for n in range(phases[name])
    ]


def running(*, code: int | None = None, **phases: int) -> ObservedComponents:
    found = pods(**phases)
    if code is not None:
        found[0]["status"]["containerStatuses"] = [{"state": {"terminated": {"exitCode": code}}}]
    return ObservedComponents(pods=found, expected=2, there=True)


class Life:
    """One AppWrapper, step by step."""

    def __init__(self, settings: RetrySettings = SETTINGS) -> None:
        self.status: Object = {}
        self.now_s, self.settings, self.suspended = 1000.0, settings, False

    def step(self, seen: ObservedComponents, *, later_s: float = 0.0) -> PhaseStep:
        self.now_s += later_s
        found = step(self.status, self.suspended, seen, self.settings, self.now_s)
        self.status = found.status
        return found

    def until_running(self) -> Life:
        self.step(NOTHING)
        self.step(NOTHING)
        assert self.step(NOTHING).do is Do.CREATE
        self.step(running())
        assert self.phase == "Running"
        return self

    @property
    def phase(self) -> str:
        return str(self.status["phase"])

    def says(self, kind: str) -> str:
        one: dict[str, Any] = next(each for each in self.status["conditions"] if each["type"] == kind)
        return f"{one['status']} {one['reason']}"


def test_nothing_is_created_while_it_is_suspended() -> None:
    life = Life()
    life.suspended = True
    for _ in range(3):
        assert life.step(NOTHING).do is Do.NOTHING
    assert life.phase == "Suspended"
    assert life.says("QuotaReserved") == "False Suspended"
    life.suspended = False
    life.step(NOTHING)
    assert (life.phase, life.says("QuotaReserved")) == ("Resuming", "True Resuming")
    assert life.step(NOTHING).do is Do.CREATE


def test_what_could_never_be_created_is_said_while_it_is_suspended() -> None:
    life, wrong = (
        Life(),
        ObservedComponents(pods=(), expected=0, missing=["a component"], fault="no template at x", fatal=True),
    )
    life.suspended = True
    life.step(wrong)
    assert life.step(wrong).events == [("Unhealthy", "CreateFailed: no template at x")]
    assert (life.phase, life.says("Unhealthy")) == ("Suspended", "True CreateFailed")
    assert life.step(wrong).events == [], "it is said once"
    life.step(NOTHING)
    assert life.says("Unhealthy") == "False Suspended"


def test_it_succeeds_by_its_pods_gives_its_quota_back_at_once_and_its_components_after_a_week() -> None:
    life = Life().until_running()
    life.step(running(Running=2))
    assert life.says("PodsReady") == "True SufficientPodsReady"
    life.step(running(Succeeded=1, Running=1))
    assert life.phase == "Running"
    life.step(running(Succeeded=2))
    assert (life.phase, life.says("QuotaReserved")) == ("Succeeded", "False Succeeded")
    assert life.says("ResourcesDeployed") == "True Succeeded"
    found = life.step(running(Succeeded=2))
    assert (found.do, found.look_s) == (Do.NOTHING, life.now_s + 7 * 86_400)
    assert life.step(running(Succeeded=2), later_s=7 * 86_400.0).do is Do.DELETE
    life.step(NOTHING)
    assert life.says("ResourcesDeployed") == "False Succeeded"


def test_a_failed_pod_has_a_minute_then_all_is_made_anew_after_a_pause_and_the_quota_is_kept() -> None:
    life = Life().until_running()
    failing = running(Failed=1, Running=1)
    found = life.step(failing)
    assert (life.phase, life.says("Unhealthy")) == ("Running", "True FoundFailedPods")
    assert found.look_s == life.now_s + 60.0
    life.step(failing, later_s=60.0)
    assert (life.phase, life.status["resettingCount"]) == ("Resetting", 1)
    assert life.step(failing).do is Do.DELETE
    assert life.step(failing, later_s=601.0).do is Do.FORCE
    life.now_s -= 600.0
    assert life.step(NOTHING).do is Do.NOTHING
    assert (life.says("ResourcesDeployed"), life.says("QuotaReserved")) == ("False Resetting", "True Resuming")
    life.step(NOTHING, later_s=90.0)
    assert life.phase == "Resuming"


def test_after_its_retries_or_a_final_exit_code_it_has_failed_and_is_removed() -> None:
    for settings, code in ((replace(SETTINGS, retries=0), None), (replace(SETTINGS, terminal=frozenset({3})), 3)):
        life = Life(replace(settings, failure_s=0.0)).until_running()
        life.step(running(code=code, Failed=1, Running=1))
        assert life.phase == "Failed"
        assert life.step(running(Failed=1)).do is Do.DELETE
        life.step(NOTHING)
        assert life.says("QuotaReserved") == life.says("ResourcesDeployed") == "False Failed"


def test_pods_that_do_not_come_or_do_not_run_are_waited_for_as_long_as_it_says() -> None:
    for seen, patience_s in ((running(Running=1), 60.0), (running(Running=1, Pending=1), 300.0)):
        life = Life().until_running()
        life.step(seen, later_s=patience_s - 1.0)
        assert life.phase == "Running"
        life.step(seen, later_s=1.0)
        assert (life.phase, life.says("Unhealthy")) == ("Resetting", "True InsufficientPodsReady")


def test_what_is_gone_fails_it_at_once_and_what_cannot_be_created_too() -> None:
    life = Life().until_running()
    life.step(NOTHING)
    assert (life.phase, life.says("Unhealthy")) == ("Failed", "True MissingComponent")
    life = Life()
    life.step(NOTHING)
    life.step(NOTHING)
    life.step(replace(NOTHING, fault="Job j: forbidden", fatal=True))
    assert (life.phase, life.says("Unhealthy")) == ("Failed", "True CreateFailed")


def test_suspended_from_outside_it_is_removed_whole_and_comes_back() -> None:
    life = Life().until_running()
    life.suspended = True
    assert life.step(running(Running=2)).events[0][0] == "Suspending"
    assert life.step(running(Running=2)).do is Do.DELETE
    life.step(NOTHING)
    assert (life.phase, life.says("QuotaReserved")) == ("Suspended", "False Suspended")
    life.suspended = False
    life.step(NOTHING)
    assert life.phase == "Resuming"


def test_pods_on_a_node_that_is_to_be_left_are_moved_without_counting() -> None:
    life = Life().until_running()
    life.step(replace(running(Running=2), evicted=True))
    assert (life.phase, life.says("Unhealthy")) == ("Resetting", "True AutopilotNoExecute")
    assert "resettingCount" not in life.status
