"""Errors of the API server: their Status objects, and the messages of their causes."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.limits import CAUSES
from phalanx.embedded.apimachinery.meta.status import (
    NO_FIELD,
    StatusError,
    already_exists,
    conflict,
    duplicate,
    forbidden,
    forbidden_field,
    invalid,
    invalid_value,
    not_found,
    not_supported,
    required,
    shown,
    too_many,
)


def test_the_status_of_a_refusal_names_the_object() -> None:
    assert not_found("batch", "jobs", "j").status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch "j" not found',
        "reason": "NotFound",
        "details": {"name": "j", "group": "batch", "kind": "jobs"},
        "code": 404,
    }


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (already_exists("", "pods", "p"), 'pods "p" already exists'),
        (already_exists("", "pods", "p", is_terminating=True), 'object is being deleted: pods "p" already exists'),
        (conflict("apps", "deployments", "d", "no"), 'Operation cannot be fulfilled on deployments.apps "d": no'),
        (forbidden("", "pods", "p", "no"), 'pods "p" is forbidden: no'),
        (forbidden("", "pods", "", "no"), "pods is forbidden: no"),  # a list has no name
    ],
)
def test_messages_of_refusals(error: StatusError, message: str) -> None:
    assert str(error) == error.status()["message"] == message


def test_details_are_absent_empty_or_with_the_time_of_the_next_try() -> None:
    assert "details" not in StatusError(400, "", "m").status()
    assert "reason" not in StatusError(400, "", "m").status()
    assert StatusError(404, "NotFound", "m", details={}).status()["details"] == {}
    assert StatusError(429, "TooManyRequests", "m", retry_after_s=0).status()["details"] == {"retryAfterSeconds": 0}


def test_one_cause_is_the_message_and_several_are_listed_once_each() -> None:
    one, other = required("spec.a"), forbidden_field("spec.b", "no")
    assert invalid("", "Pod", "p", [one]).message == 'Pod "p" is invalid: spec.a: Required value'
    twice = invalid("batch", "Job", "j", [one, other, one])
    assert twice.message == 'Job.batch "j" is invalid: [spec.a: Required value, spec.b: Forbidden: no]'
    assert len(twice.status()["details"]["causes"]) == 3


def test_of_very_many_causes_the_first_are_told() -> None:
    error = invalid("", "Pod", "p", [required(f"spec.a[{at}]") for at in range(CAUSES + 2)])
    assert len(error.status()["details"]["causes"]) == CAUSES
    assert error.message.endswith(f"spec.a[{CAUSES - 1}]: Required value, and 2 more]")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ('a"b', r'"a\"b"'),
        ({"a": "<&>"}, r'{"a":"\u003c\u0026\u003e"}'),
        ([1, "a"], '[1,"a"]'),
    ],
)
def test_values_in_messages(value: object, text: str) -> None:
    assert shown(value) == text
    assert invalid_value(NO_FIELD, value, "bad").line() == f"<nil>: Invalid value: {text}: bad"


def test_causes_without_a_detail_end_with_the_value() -> None:
    assert invalid_value("f", 1, "").message == "Invalid value: 1"
    assert duplicate("f", "a").message == 'Duplicate value: "a"'
    assert not_supported("f", "x", ["a", "b"]).message == 'Unsupported value: "x": supported values: "a", "b"'
    assert too_many("f", 3, 1).message == "Too many: 3: must have at most 1 item"
    assert too_many("f", 3, 2).message == "Too many: 3: must have at most 2 items"
