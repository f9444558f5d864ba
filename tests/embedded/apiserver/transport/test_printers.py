"""Every printer has a cell for each of its columns."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.transport.tables.printer import seconds_of
from phalanx.embedded.apiserver.transport.tables.table import as_table

BORN, NOW_S = "2026-01-01T00:00:00Z", seconds_of("2026-01-01T00:10:00Z")


def kind(name: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == name)


def test_every_printer_has_a_cell_for_each_of_its_columns() -> None:
    for resource in RESOURCES:
        obj = {"metadata": {"name": "x"}, "spec": {}, "status": {}, "roleRef": {"kind": "Role", "name": "r"}}
        table = as_table(resource, [obj], now_s=NOW_S)
        assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"]), resource.kind


def test_columns_say_what_they_are() -> None:
    first, *_, last = as_table(kind("Pod"), [], now_s=NOW_S)["columnDefinitions"]
    assert (first["name"], first["format"], first["priority"]) == ("Name", "name", 0)
    assert first["description"].startswith("Name must be unique within a namespace.")
    assert (last["name"], last["priority"]) == ("Readiness Gates", 1)
