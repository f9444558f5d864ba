"""`kube/capacity/definition_reader.py`: a definition that cannot be read affects no other one."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import CONFIG_MAPS, Kind
from phalanx.dialects.frame.dialect import Definitions, Object, Objects
from phalanx.kube.capacity.definition_reader import DefinitionReader
from phalanx.model.queue import Queue


class Sample:
    """A dialect whose queues are ConfigMaps. A queue named `odd` cannot be read, nor more than `most` together."""

    name, definition_kinds = "sample", (CONFIG_MAPS,)

    def __init__(self, most: int = 10) -> None:
        self.most = most

    def define(self, objects: Objects) -> Definitions:
        names = [obj["data"]["queue"] for obj in objects[CONFIG_MAPS].values()]
        if "odd" in names or len(names) > self.most:
            raise ValueError("a defect")
        return Definitions(queues=tuple(Queue(name=name) for name in names))


class Read:
    """A reader of these objects. `invalid`: what it reports."""

    def __init__(self, dialect: Sample, objects: dict[str, Object]) -> None:
        self.dialect: Any = dialect
        self.invalid: list[str] = []
        self.reader = DefinitionReader(lambda kind: objects, self._note)

    def _note(self, kind: Kind, obj: Object, text: str) -> None:
        self.invalid.append(text)

    def queues(self) -> list[str] | None:
        found = self.reader.read(self.dialect)
        return [queue.name for queue in found.queues] if found is not None else None


def queue(name: str) -> Object:
    return {"metadata": {"name": name}, "data": {"queue": name}}


def test_an_unreadable_definition_counts_as_it_was_before() -> None:
    objects = {"a": queue("a"), "b": queue("b")}
    read = Read(Sample(), objects)
    assert read.queues() == ["a", "b"]
    objects["b"] = queue("odd")
    assert read.queues() == ["a", "b"]
    assert read.invalid == ["its last valid version is used: it cannot be read: ValueError: a defect"]


def test_an_unreadable_definition_that_is_new_counts_as_absent() -> None:
    read = Read(Sample(), {"a": queue("a"), "b": queue("odd")})
    assert read.queues() == ["a"]
    assert read.invalid == ["it is ignored: it cannot be read: ValueError: a defect"]


def test_an_error_is_logged_once_although_the_definitions_are_read_again(caplog: pytest.LogCaptureFixture) -> None:
    objects = {"a": queue("a"), "b": queue("odd")}
    read = Read(Sample(), objects)
    for name in ("a", "c", "d"):
        objects["a"] = queue(name)
        assert read.queues() == [name]
    [record] = caplog.records
    assert not record.exc_info
    assert record.getMessage().startswith("some definitions of sample cannot be read; the other definitions are used")
    assert record.getMessage().endswith(": it cannot be read: ValueError: a defect")
    objects["b"] = queue("b")
    assert read.queues() == ["d", "b"]
    objects["b"] = queue("odd")
    assert read.queues() == ["d", "b"], "as it was before"
    assert len(caplog.records) == 2


def test_definitions_that_cannot_be_read_together_stay_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    read = Read(Sample(most=1), {"a": queue("a"), "b": queue("b")})
    assert read.queues() is None
    assert not read.invalid
    assert "the earlier definitions stay in effect" in caplog.text
