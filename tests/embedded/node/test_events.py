"""Events of a node: one object for each kind of occurrence, counted when it occurs again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import Kind
from phalanx.embedded.node.machine import events
from phalanx.embedded.node.machine.events import Occurrences

POD = {"metadata": {"uid": "u", "name": "p", "namespace": "ns", "resourceVersion": "7"}}
NODE = {"kind": "Node", "metadata": {"uid": "n", "name": "n"}}


class Server:
    """Notes what is written. `gone`: the Events do not exist any more."""

    def __init__(self) -> None:
        self.created, self.counts, self.gone = list[dict[str, Any]](), list[int](), False

    async def create(self, kind: Kind, body: dict[str, Any], namespace: str) -> None:
        assert body["metadata"]["namespace"] == namespace
        self.created.append(body)

    async def patch(self, kind: Kind, name: str, change: dict[str, Any], namespace: str) -> None:
        if self.gone:
            raise ApiRefusal(404, "NotFound", "gone")
        assert name == self.created[-1]["metadata"]["name"]
        self.counts.append(change["count"])


async def written(server: Server, *told: tuple[Any, str, str]) -> None:
    connection: Any = server
    found = server.__dict__.setdefault("occurrences", Occurrences(connection, "host"))
    for about, reason, message in told:
        await found._write(about, "Normal", reason, message, "", 0.0)


async def test_what_occurs_again_is_counted() -> None:
    server = Server()
    await written(server, (POD, "Pulled", "a"), (POD, "Pulled", "a"), (POD, "Pulled", "a"), (POD, "Pulled", "b"))
    assert [one["message"] for one in server.created] == ["a", "b"]
    assert server.counts == [2, 3]


async def test_an_event_that_was_deleted_begins_anew() -> None:
    server = Server()
    await written(server, (POD, "Pulled", "a"))
    server.gone = True
    await written(server, (POD, "Pulled", "a"))
    assert [one["count"] for one in server.created] == [1, 1]


async def test_an_event_of_a_node_is_in_the_default_namespace() -> None:
    server = Server()
    await written(server, (NODE, "Rebooted", "m"))
    [event] = server.created
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}
    assert event["source"] == {"component": "kubelet", "host": "host"}


async def test_only_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_REMEMBERED", 1)
    server = Server()
    await written(server, (POD, "Pulled", "a"), (POD, "Pulled", "b"), (POD, "Pulled", "a"))
    assert (len(server.created), server.counts) == (3, [])


async def test_too_many_at_once_are_dropped_and_nobody_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events, "_QUEUE", 1)
    connection: Any = Server()
    found = Occurrences(connection, "host")
    with caplog.at_level(logging.WARNING):
        for message in ("first", "second"):
            found.tell(POD, "Pulled", message)
    assert "dropped: Pulled second" in caplog.text
    assert "first" not in caplog.text
