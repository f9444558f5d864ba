"""`kube/status/answer_writer.py`: an answer is one write if it differs, and a refused answer is not repeated."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, ApiUnknown, Object
from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Answer
from phalanx.kube.status.answer_writer import AGAIN_S, AnswerWriter

KIND = Kind(group="kueue.x-k8s.io", version="v1beta1", plural="workloads", name="Workload")
KEY = "default/w"


class Server:
    """An API server with one object, and its cache. `error`: the answer to every write; None: the write succeeds."""

    def __init__(self, obj: Object | None, error: Exception | None = None) -> None:
        self.objects = {} if obj is None else {KEY: obj}
        self.error = error
        self.did: list[tuple[str, Any]] = []
        self.seen: list[str] = []
        self.written: set[str] = set()

    def writer(self) -> AnswerWriter:
        api: Any = self
        reports: Any = SimpleNamespace(
            see_write=lambda *about: self.seen.append("write"), see_status=lambda *about: self.seen.append("status")
        )
        informer: Any = SimpleNamespace(objects=self.objects, observe=lambda obj: self.objects.update({KEY: obj}))
        return AnswerWriter(api, lambda kind: informer, self.written, reports)

    def _note(self, what: str, body: Any) -> None:
        self.did.append((what, body))
        if self.error is not None:
            raise self.error

    async def create(self, kind: Kind, body: Object, space: str) -> Object:
        self._note("create", body)
        return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "1"}}

    async def delete(self, kind: Kind, name: str, space: str, how: Object) -> None:
        self._note("delete", how["preconditions"])

    async def patch(self, kind: Kind, name: str, body: Object, space: str, **how: Any) -> Object:
        self._note(f"patch {how.get('subresource', '')}".strip(), body)
        old = self.objects[KEY]
        meta = {**old["metadata"], **body["metadata"]}
        return {**old, "metadata": meta, **{key: part for key, part in body.items() if key != "metadata"}}


def an_object(**more: Any) -> Object:
    return {"metadata": {"name": "w", "uid": "u", "resourceVersion": "1"}, **more}


def written(server: Server, writer: AnswerWriter, answer: Answer, known: Object | None = None) -> float | None:
    """Write the answer, which was made from the status `known`."""
    statuses = {(KIND, KEY): writer.status(answer) if known is None else known}
    return asyncio.run(writer.write("default/j", answer, statuses))


def test_only_the_fields_of_the_status_that_differ_are_written() -> None:
    server = Server(an_object(status={"same": 1, "old": 2, "part": {"a": 1, "b": 2}}))
    answer = Answer(kind=KIND, key=KEY, status={"same": 1, "part": {"a": 1, "b": 3}})
    assert written(server, server.writer(), answer) is None
    [(what, body)] = server.did
    assert (what, body["status"]) == ("patch status", {"old": None, "part": {"b": 3}})
    assert body["metadata"] == {"uid": "u", "resourceVersion": "1"}
    assert server.seen == ["status", "write"]


def test_an_equal_answer_is_not_written() -> None:
    meta = {"name": "w", "uid": "u", "resourceVersion": "1", "annotations": {"a": "1", "b": "2"}, "labels": {"l": "1"}}
    server = Server({"metadata": meta, "spec": {"active": True, "more": 1}, "status": {"x": 1}})
    answer = Answer(
        kind=KIND,
        key=KEY,
        spec={"active": True},
        status={"x": 1},
        annotations={"a": "1"},
        metadata={"labels": {"l": "1"}},
    )
    assert written(server, server.writer(), answer) is None
    assert server.did == []


def test_a_missing_object_is_created_only_if_the_answer_has_one() -> None:
    server = Server(None)
    writer = server.writer()
    assert written(server, writer, Answer(kind=KIND, key=KEY, status={"x": 1})) is None
    assert server.did == []
    made = Answer(kind=KIND, key=KEY, body={"metadata": {"name": "w"}}, annotations={"a": "1"})
    assert written(server, writer, made) is None
    assert [what for what, _ in server.did] == ["create", "patch"]
    assert server.written == {"a"}
    assert server.seen == ["write", "write"]


def test_only_the_named_object_is_deleted() -> None:
    server = Server(an_object())
    writer = server.writer()
    written(server, writer, Answer(kind=KIND, key=KEY, gone=True, uid="another"))
    assert server.did == []
    written(server, writer, Answer(kind=KIND, key=KEY, gone=True, uid="u"))
    assert server.did == [("delete", {"uid": "u"})]


def test_a_status_that_another_writer_has_changed_is_compared_again() -> None:
    server = Server(an_object(status={"closed": True}))
    assert written(server, server.writer(), Answer(kind=KIND, key=KEY, status={"x": 1}), known={}) == AGAIN_S
    assert server.did == []


@pytest.mark.parametrize(
    ("error", "again_s", "attempts"),
    [
        (ApiRefusal(409, "Conflict", "changed"), AGAIN_S, 2),
        (ApiRefusal(422, "Invalid", "no"), None, 1),
        (ApiRefusal(404, "NotFound", "gone"), None, 4),
        (ApiUnknown("no answer"), 5.0, 2),
    ],
)
def test_a_refused_answer_is_not_repeated_before_a_change(
    error: Exception, again_s: float | None, attempts: int
) -> None:
    server = Server(an_object(), error)
    writer, answer = server.writer(), Answer(kind=KIND, key=KEY, status={"x": 1})
    assert written(server, writer, answer) == again_s
    assert written(server, writer, answer) == (again_s if attempts > 1 else None)
    assert len(server.did) == attempts


def test_finalizers_of_others_stay_and_none_is_added_to_an_object_that_goes() -> None:
    meta = {"name": "w", "uid": "u", "resourceVersion": "1", "finalizers": ["other/one"]}
    server = Server({"metadata": meta})
    ours = Answer(kind=KIND, key=KEY, finalizers=("kueue.x-k8s.io/in-use",))
    written(server, server.writer(), ours)
    assert server.did[0][1]["metadata"]["finalizers"] == ["other/one", "kueue.x-k8s.io/in-use"]
    going = Server({"metadata": {**meta, "deletionTimestamp": "2024-01-01T00:00:00Z"}})
    written(going, going.writer(), ours)
    assert going.did == []
