"""What `kubectl get` shows of an object: the cells under the columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.transport.tables.printer import human, seconds_of
from phalanx.embedded.apiserver.transport.tables.table import as_table

BORN, NOW_S = "2026-01-01T00:00:00Z", seconds_of("2026-01-01T00:10:00Z")


def kind(name: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == name)


def row(resource: Resource, text: str, include_object: str = "") -> dict[str, Any]:
    obj = yaml.safe_load(text)
    obj.setdefault("metadata", {}).update({"name": "x", "creationTimestamp": BORN})
    [found] = as_table(resource, [obj], include_object, now_s=NOW_S)["rows"]
    return dict(found)


WIDGETS = Resource(
    group="example.com",
    version="v1",
    kind="Widget",
    plural="widgets",
    namespaced=True,
    custom=True,
    printer_columns=(
        {"name": "Image", "type": "string", "jsonPath": ".spec.image"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ),
)


def test_a_custom_resource_shows_its_printer_columns() -> None:
    text = "{spec: {image: abc, size: big, tags: [a]}, status: {conditions: [{type: Ready, status: 'True'}]}}"
    assert row(WIDGETS, text)["cells"] == ["x", "abc", None, "True", '["a"]', "10m"]


def test_a_number_that_is_no_float_is_not_shown() -> None:
    columns = ({"name": "Weight", "type": "number", "jsonPath": ".spec.weight"},)
    weights = replace(WIDGETS, printer_columns=columns)
    assert row(weights, "{spec: {weight: 5}}")["cells"] == ["x", 5.0]
    assert row(weights, f"{{spec: {{weight: {10**400}}}}}")["cells"] == ["x", None]


def test_a_row_carries_metadata_or_the_object_or_nothing() -> None:
    text = "{data: {a: b}}"
    assert row(kind("ConfigMap"), text)["object"]["kind"] == "PartialObjectMetadata"
    assert row(kind("ConfigMap"), text, "Object")["object"]["data"] == {"a": "b"}
    assert row(kind("ConfigMap"), text, "None")["object"] is None
    with pytest.raises(StatusError, match="must be 'Metadata', 'Object', 'None', or empty"):
        row(kind("ConfigMap"), text, "Some")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0.9, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"),
        (10799, "179m"), (10800, "3h"), (12345, "3h25m"), (100_000, "27h"), (200_000, "2d7h"), (800_000, "9d"),
        (70_000_000, "2y80d"), (300_000_000, "9y"),
    ],
)  # fmt: skip
def test_durations_have_two_or_three_figures(seconds: float, shown: str) -> None:
    assert human(seconds) == shown
