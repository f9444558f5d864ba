"""`kube/read/labels.py`: options of users in labels and annotations, and numbers and JSON in them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.kube.read.labels import (
    HOLD,
    JOB,
    MOVABLE,
    MOVING,
    NODES_AFTER,
    QUEUE,
    from_autoscalers,
    held,
    option,
    read_json,
    whole_number,
)


def meta(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return {"labels": labels, "annotations": annotations}


@pytest.mark.parametrize(
    ("text", "least", "number"),
    [("7", 0, 7), ("0", 0, 0), ("0", 1, None), ("-1", 0, None), ("", 0, None), (None, 0, None), ("²", 0, None)],
)
def test_a_number_is_digits(text: str | None, least: int, number: int | None) -> None:
    assert whole_number(text, least) == number


def test_a_number_of_any_length_breaks_nothing() -> None:
    assert whole_number("9" * 5000) is None


def test_an_option_is_a_label_or_else_an_annotation() -> None:
    assert option(meta({JOB: "label"}, {JOB: "annotation"}), JOB) == "label"
    assert option(meta({QUEUE: "team"}), QUEUE) == "team"
    assert option(meta(None, {JOB: "note"}), JOB) == "note"
    assert option(meta(), JOB) is None
    assert option({}, JOB) is None


def test_json_of_another_type_is_an_error_of_its_value() -> None:
    assert read_json('{"a": 1}', dict[str, int]) == {"a": 1}
    for text, error in (("{", "truncated"), ('{"a": "b"}', "Expected `int`"), ("[" * 5000, ".")):
        with pytest.raises(ValueError, match=error):
            read_json(text, dict[str, int])


@pytest.mark.parametrize(
    ("value", "is_held"), [("", True), ("true", True), ("False ", False), ("0", False), ("no", False)]
)
def test_a_job_is_held_by_any_value_but_no(value: str, is_held: bool) -> None:
    assert held(meta({HOLD: value})) is is_held


def test_a_job_that_is_being_moved_is_held() -> None:
    assert held(meta(None, {MOVING: "west"}))
    assert held(meta({HOLD: "no"}, {MOVING: ""}))
    assert not held(meta())


@pytest.mark.parametrize(
    ("annotations", "options"),
    [
        ({}, {}),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, {MOVABLE: "false"}),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, {}),
        ({"karpenter.sh/do-not-disrupt": "true"}, {MOVABLE: "false"}),
        ({"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "600s"}, {NODES_AFTER: "600s"}),
        ({"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "soon"}, {}),
    ],
)
def test_what_autoscalers_are_told_counts_here_too(annotations: dict[str, str], options: dict[str, str]) -> None:
    assert from_autoscalers({"annotations": annotations}) == options
    assert from_autoscalers(None) == {}
