"""Texts in cells that several kinds share."""

from __future__ import annotations

import pytest

from phalanx.embedded.apiserver.transport.tables.printer import (
    PrinterColumn,
    columns,
    condition,
    containers_text,
    human,
    labels_text,
    selector_text,
    since,
)

M, H, D, Y = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"), (-1.5, "0s"), (0, "0s"), (119.9, "119s"), (2 * M, "2m"), (9 * M + 59, "9m59s"),
        (10 * M + 59, "10m"), (3 * H - 1, "179m"), (3 * H, "3h"), (7 * H + 59 * M, "7h59m"), (8 * H + M, "8h"),
        (47 * H, "47h"), (2 * D, "2d"), (7 * D + 23 * H, "7d23h"), (8 * D + H, "8d"), (2 * Y - 1, "729d"),
        (2 * Y, "2y"), (2 * Y + D, "2y1d"), (9 * Y + 9 * D, "9y"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert human(seconds) == text


def test_an_age_is_counted_from_a_time() -> None:
    assert since("1970-01-01T00:01:00Z", 90.0) == "30s"
    assert since(None, 90.0) == "<unknown>"


def test_columns_of_a_line() -> None:
    assert columns("Name | Value:integer | Node+") == (
        PrinterColumn(name="Name", format="name"),
        PrinterColumn(name="Value", type="integer"),
        PrinterColumn(name="Node", priority=1),
    )


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, "<none>"),
        ({"matchExpressions": []}, "<none>"),
        (
            {
                "matchLabels": {"b": "1"},
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["y", "x"]},
                    {"key": "c", "operator": "NotIn", "values": ["x"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "e", "operator": "DoesNotExist"},
                    {"key": "f", "operator": "Near"},
                ],
            },
            "a in (x,y),b=1,c notin (x),d,!e,<error>",
        ),
    ],
)
def test_selectors(selector: dict[str, object] | None, text: str) -> None:
    assert selector_text(selector) == text


def test_labels_and_containers() -> None:
    assert labels_text({"b": "2", "a": "1"}) == "a=1,b=2"
    assert labels_text({}) == "<none>"
    assert containers_text({"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b"}]}}) == ("a,b", "i,")
    assert containers_text(None) == ("", "")


def test_a_condition_is_met_if_it_is_true() -> None:
    conditions = [{"type": "Ready", "status": "False"}, {"type": "Complete", "status": "True"}]
    assert condition({"status": {"conditions": conditions}}, "Complete")
    assert not condition({"status": {"conditions": conditions}}, "Ready")
    assert not condition({}, "Ready")
