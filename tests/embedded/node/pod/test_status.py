"""A pod's status, from what is known of its containers."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.node.pod.lifecycle import ContainerStateWaiting, Known
from phalanx.embedded.node.pod.status import PodStatusFacts, pod_status
from tests.embedded.node.objects import container, exited, pod, running

PLACE = PodStatusFacts(pod_ip="127.64.0.1", host_ip="127.0.0.1", start_time="2026-01-01T00:00:00Z")
UP = Known(state=running(), ready=True, started=True)
NOW_S = 1000.0


def status(spec: Any, over: bool = False, place: PodStatusFacts = PLACE, **known: Known) -> Any:
    return pod_status(spec, known, place, NOW_S, over=over)


def condition(found: Any, kind: str) -> tuple[str, str | None, str | None]:
    one = next(one for one in found["conditions"] if one["type"] == kind)
    return one["status"], one["reason"], one["message"]


def test_a_running_pod_is_ready() -> None:
    found = status(pod(), main=UP)
    assert (found["phase"], found["podIP"], found["hostIP"]) == ("Running", "127.64.0.1", "127.0.0.1")
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"):
        assert condition(found, kind) == ("True", None, None)
    (one,) = found["containerStatuses"]
    assert one["state"] == {"running": {"startedAt": "1970-01-01T00:01:40Z"}}
    assert one["containerID"].startswith("phalanx://")
    assert (one["ready"], one["started"], one["restartCount"]) == (True, True, 0)


def test_unready_containers_are_named() -> None:
    found = status(pod(container("a"), container("b")), a=UP, b=Known(state=running(), started=True))
    message = "containers with unready status: [b]"
    assert condition(found, "Ready") == ("False", "ContainersNotReady", message)
    assert condition(found, "ContainersReady") == ("False", "ContainersNotReady", message)
    assert found["phase"] == "Running"


def test_while_init_containers_run_the_pod_is_pending() -> None:
    found = status(pod(initContainers=[container("one")]), one=UP, main=Known())
    assert found["phase"] == "Pending"
    assert condition(found, "Initialized")[1:] == (
        "ContainersNotInitialized",
        "containers with incomplete status: [one]",
    )
    assert found["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


@pytest.mark.parametrize(
    ("codes", "phase", "reason"), [((0, 0), "Succeeded", "PodCompleted"), ((0, 3), "Failed", "PodFailed")]
)
def test_an_ended_pod(codes: tuple[int, int], phase: str, reason: str) -> None:
    known = {name: Known(state=exited(code)) for name, code in zip("ab", codes, strict=True)}
    found = status(pod(container("a"), container("b"), restartPolicy="Never"), over=True, **known)
    assert found["phase"] == phase
    assert condition(found, "Ready") == ("False", reason, None)
    last = found["containerStatuses"][1]["state"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (codes[1], "Error" if codes[1] else "Completed")


def test_a_crash_loop_shows_the_pause_and_the_last_end() -> None:
    known = Known(number=2, failures=2, state=exited(1, at_s=NOW_S - 1))
    (one,) = status(pod(), main=known)["containerStatuses"]
    text = "back-off 20s restarting failed container=main pod=p_default(uid-p)"
    assert one["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    assert one["lastState"]["terminated"]["exitCode"] == 1
    assert one["restartCount"] == 2


def test_a_restarted_container_remembers_its_last_end() -> None:
    known = Known(number=1, state=running(), previous=exited(137, reason="OOMKilled"))
    (one,) = status(pod(), main=known)["containerStatuses"]
    assert one["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert one["lastState"]["terminated"]["containerID"] != one["containerID"]


def test_why_a_container_waits_is_said() -> None:
    waiting = ContainerStateWaiting(reason="ErrImagePull", message="use image: host", retry_s=0)
    (one,) = status(pod(), main=Known(waiting=waiting))["containerStatuses"]
    assert one["state"] == {"waiting": {"reason": "ErrImagePull", "message": "use image: host"}}


def test_a_container_that_never_ran_in_an_ended_pod() -> None:
    found = status(pod(), over=True, main=Known())
    assert found["phase"] == "Failed"
    ended = found["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


def test_a_pod_past_its_deadline_failed_even_if_it_ended_well() -> None:
    place = PodStatusFacts(pod_ip="", host_ip="", start_time="", failure=("DeadlineExceeded", "too long"))
    found = status(pod(), over=True, place=place, main=Known(state=exited(0)))
    assert (found["phase"], found["reason"], found["message"]) == ("Failed", "DeadlineExceeded", "too long")


def test_the_time_of_a_transition_stays_while_the_status_does() -> None:
    before = pod()
    before["status"] = status(before, main=Known(state=running(), started=True))
    later = pod_status(before, {"main": UP}, PLACE, NOW_S + 60, over=False)
    times = {one["type"]: one["lastTransitionTime"] for one in later["conditions"]}
    assert (times["Initialized"], times["Ready"]) == ("1970-01-01T00:16:40Z", "1970-01-01T00:17:40Z")


def test_an_ephemeral_container_decides_nothing_about_its_pod() -> None:
    spec = pod(container("main"), ephemeralContainers=[container("late")])
    found = status(spec, main=UP, late=Known(state=exited(1)))
    assert (found["phase"], condition(found, "Ready")) == ("Running", ("True", None, None))
    (late,) = found["ephemeralContainerStatuses"]
    assert (late["name"], late["ready"], late["state"]["terminated"]["exitCode"]) == ("late", False, 1)
    assert "started" not in late  # nobody asks
    over = status(spec, over=True, main=Known(state=exited(0)), late=Known(state=exited(137)))
    assert over["phase"] == "Succeeded"
