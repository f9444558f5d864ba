"""`agent/pod/status_writer.py`: a status is written once, and a pod whose object is gone is noticed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Object
from phalanx.embedded.node.agent.pod.status_writer import PodStatusWriter
from phalanx.embedded.node.container.attempt import REBOOT
from phalanx.embedded.node.pod.lifecycle import BackOff, Known
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import container, exited, pod, running

RECORD = PodRecord(uid="u", namespace="default", name="p", pod_ip="10.0.0.1", start_time="2024-01-01T00:00:00Z")


class Node:
    """The surroundings of one pod. `error`: the answer to a write; None: it succeeds. `seen`: what is observed."""

    def __init__(self, error: ApiRefusal | None = None) -> None:
        self.error, self.writes, self.seen, self.events = error, list[Object](), list[Object](), list[str]()
        self.settings, self.back_off = SimpleNamespace(address="10.0.0.2"), BackOff()
        self.connection, self.tell = self, SimpleNamespace(tell=self._tell)

    def _tell(self, about: Object, reason: str, message: str, *, kind: str, container: str) -> None:
        self.events.append(f"{reason} {container}")

    async def patch(self, kind: Any, name: str, body: Object, space: str, *how: Any) -> Object:
        self.writes.append(body)
        if self.error is not None:
            raise self.error
        return {"metadata": body["metadata"], "status": body["status"]}

    def observe(self, obj: Object) -> None:
        self.seen.append(obj)


def writer_on(node: Node) -> PodStatusWriter:
    around: Any = node
    return PodStatusWriter(around)


def test_an_equal_status_is_written_once() -> None:
    node = Node()
    writer = writer_on(node)
    for _ in range(2):
        status = writer.compute(pod(), RECORD, {"main": Known(state=running())}, over=False)
        assert asyncio.run(writer.write(pod(), status))
    assert len(node.writes) == len(node.seen) == 1
    assert node.writes[0]["metadata"] == {"uid": "uid-p"}
    assert writer.written == status


@pytest.mark.parametrize(
    ("error", "exists"),
    [
        (ApiRefusal(404, "NotFound", "gone"), False),
        (ApiRefusal(409, "Conflict", "another pod"), False),
        (ApiRefusal(422, "Invalid", "no"), True),
    ],
)
def test_a_refused_status_is_not_written_and_may_say_that_the_pod_is_gone(error: ApiRefusal, exists: bool) -> None:
    writer = writer_on(Node(error))
    assert asyncio.run(writer.write(pod(), {"phase": "Running"})) is exists
    assert writer.written is None


def test_the_end_of_an_ephemeral_container_is_no_disruption_of_the_pod() -> None:
    lost = Known(state=exited(137, reason=REBOOT, message="the machine was started again"))
    done, shown = Known(state=exited(0)), pod(ephemeralContainers=[container("debug")], restartPolicy="Never")
    found = writer_on(Node()).compute(shown, RECORD, {"main": done, "debug": lost}, over=True)
    assert not any(one["type"] == "DisruptionTarget" for one in found["conditions"])
    found = writer_on(Node()).compute(shown, RECORD, {"main": lost, "debug": done}, over=True)
    assert any(one["type"] == "DisruptionTarget" for one in found["conditions"])


def test_each_pause_before_a_restart_is_one_event() -> None:
    node = Node()
    writer = writer_on(node)
    pausing = Known(number=2, state=exited(1, at_s=4e9), failures=3)
    for _ in range(2):
        writer.compute(pod(restartPolicy="Always"), RECORD, {"main": pausing}, over=False)
    assert node.events == ["BackOff spec.containers{main}"]
