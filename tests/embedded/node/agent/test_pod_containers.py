"""`agent/pod/pod_containers.py`: the containers of a pod as a group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.agent.container import Container
from phalanx.embedded.node.agent.pod.pod_containers import PodContainers
from phalanx.embedded.node.container.attempt import Planned, State
from phalanx.embedded.node.pod.lifecycle import ContainerStateWaiting
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import container, exited, pod, running

RECORD = PodRecord(uid="u", namespace="default", name="p", pod_ip="", start_time="")
NO_IMAGE = ContainerStateWaiting(reason="ErrImagePull", message="no such image", retry_s=0.0)


def of_pod(folder: Path, **states: State | None) -> PodContainers:
    around: Any = SimpleNamespace(pod_dir=lambda uid: folder)
    found = PodContainers(pod(*map(container, states)), RECORD, around, lambda: None)
    for name, state in states.items():
        found.by_name[name].known = replace(found.by_name[name].known, state=state)
    return found


def test_an_ephemeral_container_joins_later(tmp_path: Path) -> None:
    found = of_pod(tmp_path, main=running())
    before = found.by_name["main"]
    found.take_in(pod(container("main"), ephemeralContainers=[container("debug")]))
    assert list(found.by_name) == ["main", "debug"]
    assert found.by_name["main"] is before


def test_a_new_image_ends_the_wait_of_its_container_alone(tmp_path: Path) -> None:
    found = of_pod(tmp_path, main=None, other=None)
    found.wait(NO_IMAGE)
    found.take_in(pod(container("main") | {"image": "better"}, container("other")))
    assert {name: one.known.waiting for name, one in found.by_name.items()} == {"main": None, "other": NO_IMAGE}


@pytest.mark.parametrize(
    ("states", "started", "up", "runs", "latest_s"),
    [
        ({"a": None}, False, False, False, 0.0),
        ({"a": Planned(), "b": None}, True, True, False, 0.0),
        ({"a": running(5.0), "b": running(7.0)}, True, True, True, 7.0),
        ({"a": exited(), "b": exited()}, True, False, False, 0.0),
    ],
    ids=["new", "planned", "running", "ended"],
)
def test_what_it_says_of_all(
    tmp_path: Path, states: dict[str, State | None], started: bool, up: bool, runs: bool, latest_s: float
) -> None:
    found = of_pod(tmp_path, **states)
    assert (found.is_any_started, found.is_any_up, found.is_any_running) == (started, up, runs)
    assert found.latest_start_s == latest_s


def test_a_doomed_container_is_stopped_for_its_own_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = list[tuple[Any, ...]]()

    def stop(self: Container, *about: Any) -> float:
        stops.append((self.name, *about))
        return 9.0

    monkeypatch.setattr(Container, "stop", stop)
    monkeypatch.setattr(Container, "doomed", property(lambda self: "" if self.name == "fine" else "Probe: failed"))
    found = of_pod(tmp_path, sick=running(), fine=running(), ends=running())
    assert found.stop(("ends",), 1.0, "deleted") == [9.0]
    assert found.stop_doomed(30.0, besides=("ends",)) == [9.0]
    event = "Container sick probe, will be restarted"
    assert stops == [("ends", 1.0, "deleted"), ("sick", 30.0, "Probe: failed", event)]
