"""Tables (meta.k8s.io/v1 Table): the server creates the rows that `kubectl get` prints, so that every client shows the
same table.

A built-in kind has a printer (`printers.py`), and a custom resource has the `additionalPrinterColumns` of its
definition. All other kinds show their name and their time of creation. Each row contains the metadata of its object,
unless the client requests the whole object or none. Source: k8s.io/apiserver/pkg/registry/rest/table.go,
apiextensions-apiserver tableconvertor.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.expressions.jsonpath import find
from phalanx.embedded.apimachinery.meta.objectmeta import TEMPLATE_GENERATION
from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import bad_request
from phalanx.embedded.apimachinery.schema.schema import definitions
from phalanx.embedded.apiserver.transport.tables.documentation import DOCUMENTED, SHARED
from phalanx.embedded.apiserver.transport.tables.pod_row import pod_conditions
from phalanx.embedded.apiserver.transport.tables.printer import Printer, PrinterColumn, columns, since
from phalanx.embedded.apiserver.transport.tables.printers import PRINTERS

_GENERIC = Printer(
    columns=columns("Name | Created At:date"),
    cells=lambda obj, _: [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")],
)
# if a definition has no columns, this is the second column of its kind
_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_LARGEST = sys.float_info.max
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def as_table(
    resource: Resource,
    objects: Iterable[Object],
    include_object: str = "",
    *,
    now_s: float,
    metadata: Mapping[str, object] | None = None,
    version: str = "v1",
) -> Object:
    """Return a Table of the objects. `include_object`: the query parameter includeObject, which is Metadata (or empty),
    Object or None; another value raises `StatusError` 400. `version`: the API version of the Table, `v1` or `v1beta1`.

    `now_s`: the present time in seconds since the epoch, from which ages are computed. `metadata`: the metadata of the
    Table itself (resourceVersion, continue).
    """
    if include_object not in ("", "Metadata", "Object", "None"):
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include_object}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    printer = printer_of(resource)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(metadata or {}),
        "columnDefinitions": [_definition(resource, column) for column in printer.columns],
        "rows": [_row(resource, printer, obj, include_object, now_s, version) for obj in objects],
    }


def as_partial_metadata(obj: Object, version: str = "v1") -> Object:
    """Return only the metadata of an object."""
    meta = obj["metadata"]
    # Kube-apiserver stores the number in the annotation TEMPLATE_GENERATION as an internal field, so the annotation is
    # part of a whole object but not of its metadata.
    if obj.get("kind") == "DaemonSet" and (notes := meta.get("annotations")):
        notes = {key: value for key, value in notes.items() if key != TEMPLATE_GENERATION}
        meta = {key: value for key, value in meta.items() if key != "annotations"}
        meta |= {"annotations": notes} if notes else {}
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": meta}


def printer_of(resource: Resource) -> Printer:
    """Return the printer of a kind."""
    if resource.custom:
        return _custom_printer(resource.printer_columns) if resource.printer_columns else _custom_ages()
    return PRINTERS.get((resource.group, resource.kind), _GENERIC)


def _row(resource: Resource, printer: Printer, obj: Object, include_object: str, now_s: float, version: str) -> Object:
    # the object of a bookmark has no name
    full = obj if "name" in obj["metadata"] else {"spec": {}, **obj, "metadata": {"name": ""}}
    row: Object = {"cells": printer.cells(full, now_s)}
    if resource.kind == "Pod" and not resource.group and (conditions := pod_conditions(obj)):
        row["conditions"] = conditions
    match include_object:
        case "None":
            row["object"] = None
        case "Object":
            row["object"] = {"kind": resource.kind, "apiVersion": resource.api_version} | obj
        case _:
            row["object"] = as_partial_metadata(obj, version)
    return row


def _definition(resource: Resource, column: PrinterColumn) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or _documentation(resource, column.name),
        "priority": column.priority,
    }


def _documentation(resource: Resource, column: str) -> str:
    """Return the documentation of a column: the text in `documentation.py` or, if there is none, the documentation of
    the API field with the column's name."""
    noted = DOCUMENTED.get((resource.group, resource.kind), {}).get(column, SHARED.get(column))
    if noted is None:
        words = column.replace("-", " ").split()
        field = words[0].lower() + "".join(word.capitalize() for word in words[1:]) if words else ""
        places = [(_META, "name" if field == "name" else "creationTimestamp")] if field in _METADATA_FIELDS else []
        places += [(f"{resource.schema_name}{part}", field) for part in ("Spec", "Status", "")]
    elif noted.startswith("."):
        kind, _, field = noted[1:].rpartition(".")
        package = "io.k8s.api" if "." in kind else resource.schema_name.rpartition(".")[0]
        places = [(f"{package}.{kind}", field)]
    else:
        return noted
    for name, key in places:
        found = definitions().get(name, {}).get("properties", {}).get(key, {})
        if found.get("description"):
            return str(found["description"])
    return ""


_METADATA_FIELDS = ("name", "age", "createdAt")


# --- custom resources --------------------------------------------------------------------------------------------


def _custom_printer(definitions: Iterable[Mapping[str, object]]) -> Printer:
    wanted = tuple(definitions)

    def cells(obj: Object, now_s: float) -> list[object]:
        return [obj["metadata"]["name"], *(_custom_cell(obj, one, now_s) for one in wanted)]

    return Printer(columns=(*columns("Name"), *map(_custom_column, wanted)), cells=cells)


@cache
def _custom_ages() -> Printer:
    """Return the printer of a custom kind, if its definition has no columns."""
    made = definitions()[_META]["properties"]["creationTimestamp"]["description"]
    return _custom_printer(({**_AGE, "description": made},))


def _custom_column(definition: Mapping[str, Any]) -> PrinterColumn:
    return PrinterColumn(
        name=definition["name"],
        type=definition["type"],
        format=definition.get("format", ""),
        priority=definition.get("priority", 0),
        description=definition.get("description")
        or f"Custom resource definition column (in JSONPath format): {definition['jsonPath']}",
    )


def _custom_cell(obj: Object, definition: Mapping[str, Any], now_s: float) -> object:
    """Return the first value at the column's path, or None if this value does not have the column's type."""
    found = find(obj, definition["jsonPath"])
    value = found[0] if found else None
    match definition["type"], value:
        case _, None:
            return None
        case "string", _:
            return _text(value)
        case "integer" | "number", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return float(value) if abs(value) < _LARGEST else None
        case "boolean", bool():
            return value
        case "date", str():
            return _date(value, now_s)
        case _:
            return None


def _date(value: str, now_s: float) -> str:
    try:
        return since(value, now_s)
    except ValueError:
        return "<invalid>"


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
