"""The status and the spec of an object are written apart, and changes of the spec are counted."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apiserver.registry.kinds.generation import GenerationStrategy, SpecAndStatus


class WithGenerations(SpecAndStatus):
    counts = True


def stored(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"generation": 3}, "spec": {"a": 1}, "status": {"phase": "Ready"}, **fields}


def test_a_new_object_has_the_first_generation_and_no_status_of_its_author() -> None:
    obj = stored()
    WithGenerations().prepare_create(obj)
    assert (obj["status"], obj["metadata"]["generation"]) == ({}, 1)


def test_only_a_change_of_the_spec_makes_a_new_generation() -> None:
    for strategy in (WithGenerations(), GenerationStrategy()):
        same, other = stored(metadata={"labels": {"x": "y"}}), stored(spec={"a": 2}, metadata={})
        strategy.prepare_update(same, stored())
        strategy.prepare_update(other, stored())
        assert (same["metadata"]["generation"], other["metadata"]["generation"]) == (3, 4)


def test_an_update_keeps_the_status_and_a_status_update_keeps_the_spec() -> None:
    obj = stored(status={"phase": "Failed"})
    SpecAndStatus().prepare_update(obj, stored())
    assert obj["status"] == {"phase": "Ready"}
    obj = stored(spec={"a": 9}, metadata={"generation": 8}, status={"phase": "Failed"})
    SpecAndStatus().prepare_status_update(obj, stored())
    assert (obj["spec"], obj["status"], obj["metadata"]["generation"]) == ({"a": 1}, {"phase": "Failed"}, 3)


def test_a_status_that_was_not_there_is_not_written_by_an_update() -> None:
    old = stored()
    del old["status"]
    obj = stored()
    SpecAndStatus().prepare_update(obj, old)
    assert "status" not in obj
