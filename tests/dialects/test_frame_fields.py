"""`dialects/frame/fields.py`: each field of an object without effect is named, with the reason."""

from __future__ import annotations

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, unused

TABLE = {
    "spec.queue": Becomes("queue"),
    "spec.state": Answered(),
    "spec.color": Ignored("no pod has one"),
    "spec.tasks": Becomes("roles"),
    "spec.tasks[].name": Becomes("role"),
    "spec.tasks[].mood": Ignored("tasks have none"),
    "spec.deep.inner.size": Becomes("count"),
}


def test_a_field_that_counts_needs_no_word() -> None:
    assert list(unused({"queue": "q", "state": "open", "tasks": [{"name": "a"}]}, TABLE)) == []


def test_a_field_that_is_ignored_says_why_also_within_a_list() -> None:
    found = list(unused({"color": "red", "tasks": [{"name": "a"}, {"mood": "bad"}]}, TABLE))
    assert found == ["spec.color has no effect: no pod has one", "spec.tasks[].mood has no effect: tasks have none"]


def test_an_unknown_field_is_named_where_it_stands() -> None:
    found = list(unused({"deep": {"inner": {"size": 1, "siez": 2}}, "tasks": [{"nmae": "a"}]}, TABLE))
    assert found == [
        "spec.deep.inner.siez is unknown to Phalanx, and has no effect",
        "spec.tasks[].nmae is unknown to Phalanx, and has no effect",
    ]


def test_what_is_below_a_field_without_inner_rows_is_part_of_it() -> None:
    assert list(unused({"queue": {"name": "q"}}, TABLE)) == []
    assert list(unused({"queue": "q"}, {"queue": Becomes("queue")}, path="")) == []
