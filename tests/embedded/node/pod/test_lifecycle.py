"""What a pod's containers need next."""

from __future__ import annotations

import pytest

from phalanx.embedded.node.pod.lifecycle import BackOff, ContainerStateWaiting, Known, Steps, steps
from tests.embedded.node.objects import container, exited, pod, running

NOW_S = 1000.0
UP = Known(state=running(), ready=True, started=True)


def next_steps(spec: dict, stopping: bool = False, **known: Known) -> Steps:
    return steps(spec["spec"], known, NOW_S, BackOff(), stopping=stopping)


def test_init_containers_run_one_after_the_other() -> None:
    spec = pod(container("main"), initContainers=[container("one"), container("two")])
    none = Known()
    assert next_steps(spec, one=none, two=none, main=none).start == ("one",)
    assert next_steps(spec, one=UP, two=none, main=none) == Steps()
    done = Known(state=exited(0))
    assert next_steps(spec, one=done, two=none, main=none).start == ("two",)
    assert next_steps(spec, one=done, two=done, main=none).start == ("main",)


def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    spec = pod(container("main"), restartPolicy="Never", initContainers=[container("one")])
    assert next_steps(spec, one=Known(state=exited(1)), main=Known()).done
    again = pod(container("main"), restartPolicy="OnFailure", initContainers=[container("one")])
    assert next_steps(again, one=Known(state=exited(1)), main=Known()).start == ("one",)


@pytest.mark.parametrize(
    ("policy", "code", "comes_again"),
    [("Always", 0, True), ("Always", 1, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_restart_policies(policy: str, code: int, comes_again: bool) -> None:
    found = next_steps(pod(restartPolicy=policy), main=Known(state=exited(code)))
    assert found == (Steps(start=("main",)) if comes_again else Steps(done=True))


def test_the_pause_doubles_from_the_second_restart_on() -> None:
    assert [BackOff().pause_s(failures) for failures in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
    early = Known(number=2, failures=2, state=exited(1, at_s=NOW_S - 5))
    assert next_steps(pod(), main=early) == Steps(wake_s=NOW_S + 15)
    due = Known(number=2, failures=2, state=exited(1, at_s=NOW_S - 20))
    assert next_steps(pod(), main=due).start == ("main",)


def test_a_container_that_waits_is_tried_again_when_it_is_time() -> None:
    waiting = ContainerStateWaiting(reason="ErrImagePull", message="", retry_s=NOW_S + 7)
    assert next_steps(pod(), main=Known(waiting=waiting)) == Steps(wake_s=NOW_S + 7)


def test_sidecars_start_first_and_end_last() -> None:
    cars = [{**container(name), "restartPolicy": "Always"} for name in ("car", "van")]
    spec = pod(container("main"), restartPolicy="Never", initContainers=cars)
    none, ended = Known(), Known(state=exited(0))
    assert next_steps(spec, car=none, van=none, main=none).start == ("car",)
    assert next_steps(spec, car=Known(state=running()), van=none, main=none) == Steps()  # up, but not started yet
    assert next_steps(spec, car=UP, van=UP, main=none).start == ("main",)
    assert next_steps(spec, car=UP, van=UP, main=UP) == Steps()
    assert next_steps(spec, car=UP, van=UP, main=ended).stop == ("van",)
    assert next_steps(spec, car=UP, van=ended, main=ended).stop == ("car",)
    assert next_steps(spec, car=ended, van=ended, main=ended).done


def test_a_stopping_pod_starts_nothing() -> None:
    spec = pod(container("a"), container("b"))
    assert next_steps(spec, stopping=True, a=UP, b=Known()) == Steps(stop=("a",))
    assert next_steps(spec, stopping=True, a=Known(state=exited(143)), b=Known()).done


def test_ephemeral_containers_start_at_once_run_once_and_keep_no_pod_alive() -> None:
    late = {"ephemeralContainers": [container("late")]}
    early = pod(container("main"), initContainers=[container("one")], **late)
    assert next_steps(early, one=UP, main=Known(), late=Known()).start == ("late",)
    spec = pod(container("main"), restartPolicy="Never", **late)
    waiting = ContainerStateWaiting(reason="CreateContainerConfigError", message="", retry_s=NOW_S + 5)
    assert next_steps(spec, main=UP, late=Known(waiting=waiting)) == Steps(wake_s=NOW_S + 5)
    assert next_steps(spec, main=UP, late=Known(state=exited(1))) == Steps()
    ended = Known(state=exited(0))
    assert next_steps(spec, main=ended, late=UP) == Steps(stop=("late",))
    assert next_steps(spec, main=ended, late=ended).done
