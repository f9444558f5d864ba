"""The rows of Jobs, as `kubectl get` shows them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.transport.tables.printer import seconds_of
from phalanx.embedded.apiserver.transport.tables.table import as_table

BORN, NOW_S = "2026-01-01T00:00:00Z", seconds_of("2026-01-01T00:10:00Z")


def kind(name: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == name)


def row(resource: Resource, text: str, include_object: str = "") -> dict[str, Any]:
    obj = yaml.safe_load(text)
    obj.setdefault("metadata", {}).update({"name": "x", "creationTimestamp": BORN})
    [found] = as_table(resource, [obj], include_object, now_s=NOW_S)["rows"]
    return dict(found)


JOBS = {
    "suspended": (
        "{completions: 3}",
        "{conditions: [{type: Suspended, status: 'True'}]}",
        ["Suspended", "0/3", ""],
    ),
    "suspended, which its status does not say yet": (
        "{completions: 3, suspend: true}",
        "{}",
        ["Suspended", "0/3", ""],
    ),
    "runs": (
        "{parallelism: 1}",
        "{startTime: '2026-01-01T00:08:30Z', succeeded: 0}",
        ["Running", "0/1", "90s"],
    ),
    "complete": (
        "{parallelism: 2}",
        """{startTime: '2026-01-01T00:00:00Z', completionTime: '2026-01-01T00:02:05Z', succeeded: 1,
            conditions: [{type: Complete, status: 'True'}]}""",
        ["Complete", "1/1 of 2", "2m5s"],
    ),
}


@pytest.mark.parametrize(("spec", "status", "shown"), JOBS.values(), ids=JOBS)
def test_a_job(spec: str, status: str, shown: list[str]) -> None:
    assert row(kind("Job"), f"{{spec: {spec}, status: {status}}}")["cells"][1:4] == shown
