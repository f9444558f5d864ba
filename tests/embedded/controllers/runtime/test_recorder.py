"""Events are put together before they are written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.runtime.recorder import EventRecorder, combined
from tests import clockwork
from tests.embedded.controllers.objects import job


class Notebook(Connection):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__("http://nowhere", headers={}, tls=None)
        self.written: list[tuple[str, Any]] = []

    async def create(
        self, kind: Kind, body: Object, namespace: str = "", subresource: str = "", name: str = ""
    ) -> Object:
        self.written.append((f"POST {namespace}", body))
        return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "1"}}

    async def patch(self, kind: Kind, name: str, body: Any, *rest: Any, **params: Any) -> Object:
        self.written.append(("PATCH", body))
        return {"metadata": {"name": name, "uid": "u", "resourceVersion": "2"}}


def written(*steps: Callable[[EventRecorder], None]) -> list[tuple[str, Any]]:
    """What is written after each step, one window later."""

    def no_informer(kind: Kind) -> Informer:
        raise AssertionError("events are not cached")

    async def scenario() -> list[tuple[str, Any]]:
        notebook = Notebook()
        recorder = EventRecorder(Calls(notebook, no_informer), window_s=0.001, writes_per_s=1e6, clock=lambda: 1.8e9)
        task = asyncio.ensure_future(recorder.run())
        for step in steps:
            before = len(notebook.written)
            step(recorder)
            while len(notebook.written) == before:  # noqa: ASYNC110 -- the recorder tells nobody when it has written
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        task.cancel()
        return notebook.written

    return clockwork.run(scenario())


def tell(message: str, times: int = 1) -> Callable[[EventRecorder], None]:
    def step(recorder: EventRecorder) -> None:
        for number in range(times):
            recorder.tell("job-controller", job(), "Normal", "SuccessfulCreate", message.format(number))

    return step


def test_few_messages_are_written_one_by_one() -> None:
    assert combined({"a": 1, "b": 2}) == [("a", 1), ("b", 2)]


def test_many_similar_messages_become_one_with_their_number() -> None:
    assert combined({f"pod {number}": 1 for number in range(10)}) == [("(combined from similar events): pod 9", 10)]


def test_an_event_says_who_what_and_about_whom() -> None:
    [(verb, event)] = written(tell("Created pod: j-{}"))
    assert verb == "POST ns"
    assert (event["reason"], event["message"], event["count"]) == ("SuccessfulCreate", "Created pod: j-0", 1)
    assert event["involvedObject"] == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "ns",
        "name": "j",
        "uid": "job-uid",
    }
    assert event["source"] == {"component": "job-controller"}


def test_a_repetition_only_raises_the_count() -> None:
    first, second = written(tell("Error creating: no", 3), tell("Error creating: no", 2))
    assert first[1]["count"] == 3
    assert (second[0], second[1]["count"]) == ("PATCH", 5)


def test_a_thousand_pods_cost_one_write() -> None:
    [(_, event)] = written(tell("Created pod: j-{}", 1000))
    assert (event["message"], event["count"]) == ("(combined from similar events): Created pod: j-999", 1000)
