"""What may differ between two right servers gets a name on both sides: uids, versions, times, generated names.

Captured values become the names of their variables everywhere, so identity is compared: a no-op update must answer
the same `${rv}`, an owner reference the same `${uid}`. Names, messages, reasons, codes, defaults and numbers stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.embedded.oracle.jsonpath import ABSENT

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
IP = re.compile(r"\d{1,3}(\.\d{1,3}){3}|[0-9a-f]*:[0-9a-f:]+")
AGE = re.compile(r"(\d+[smhdy])+")
HASH = re.compile(r"\.[0-9a-f]{15,16}$")
VERSION_TEXTS = [
    (re.compile(r"(ResourceVersion in (?:precondition|object meta): )\d+"), r"\1<rv>"),
    (re.compile(r"(does not match the ResourceVersion in record \()\d+(\))"), r"\1<rv>\2"),
    (re.compile(r"(too old resource version: \d+ \()\d+(\))"), r"\1<rv>\2"),
    (re.compile(r"(Too large resource version: \d+, current: )\d+"), r"\1<rv>"),
]
AGE_COLUMNS = {"age", "duration", "last seen", "first seen", "created at"}
CONTROLLER_OBJECTS = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}


@dataclass(slots=True)
class Names:
    """The values of one run of one case that have a name."""

    variables: dict[str, Any]
    generated: dict[str, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)

    def fork(self) -> Names:
        return Names(dict(self.variables), dict(self.generated), list(self.columns))

    def texts(self) -> list[tuple[str, str]]:
        """(value, name), longest first."""
        pairs = [
            (value, f"${{{name}}}")
            for name, value in self.variables.items()
            if isinstance(value, str) and len(value) >= 6 and not value.isdigit() and not TIME.fullmatch(value)
        ]
        known = {value for value, _ in pairs}
        pairs += [(value, name) for value, name in self.generated.items() if value not in known]
        return sorted(pairs, key=lambda pair: -len(pair[0]))

    def note_generated(self, value: Any) -> None:
        if isinstance(value, dict):
            meta = value.get("metadata")
            if isinstance(meta, dict):
                prefix, name = meta.get("generateName"), meta.get("name")
                if prefix and isinstance(name, str) and name.startswith(prefix) and len(name) > len(prefix):
                    self.generated[name] = prefix + "<suffix>"
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self.note_generated(one)


class _Walk:
    """One pass over one value."""

    def __init__(self, names: Names) -> None:
        self.pairs = names.texts()
        self.versions: dict[str, str] = {}
        for name, value in names.variables.items():
            if isinstance(value, str) and value.isdigit():
                self.versions.setdefault(value, f"${{{name}}}")

    def text(self, value: str) -> str:
        for old, new in self.pairs:
            value = value.replace(old, new)
        value = UUID.sub("<uid>", value)
        for pattern, new in VERSION_TEXTS:
            value = pattern.sub(new, value)
        value = HASH.sub(".<hex>", value)
        if TIME.fullmatch(value) and "2020" <= value[:4] <= "2100":
            return "<microtime>" if "." in value else "<time>"
        return value

    def value(self, node: Any, key: str = "", parent: Any = None) -> Any:
        match node:
            case dict():
                return {self.text(name): self.field(node, name, one) for name, one in node.items()}
            case list():
                return _sorted(key, [self.value(one, key) for one in node], parent)
            case str():
                return self.text(node)
        return node

    def field(self, parent: dict[str, Any], key: str, value: Any) -> Any:
        match key, value:
            case "resourceVersion", str() if value not in ("", "0"):
                return self.versions.get(value, "<rv>") if "name" in parent or "uid" in parent else "<rv>"
            case "continue", str() if value:
                return "<continue>"
            case "clusterIP", str() if IP.fullmatch(value):
                return "<ip>"
            case "clusterIPs", list():
                return ["<ip>" if IP.fullmatch(str(one)) else one for one in value]
            case (("nodePort" | "healthCheckNodePort"), int()) if value:
                return "<port>"
            case "storageVersionHash", _:
                return "<hash>"
        return self.value(value, key, parent)


def _sorted(key: str, items: list[Any], parent: Any) -> list[Any]:
    """Lists whose order means nothing, in an order."""
    maps = all(isinstance(one, dict) for one in items)
    discovery = isinstance(parent, dict) and {"singularName", "kind", "subresource", "responseKind"} & set(parent)
    match key:
        case "verbs" if discovery:
            return sorted(items, key=str)
        case "conditions" if maps and all("type" in one for one in items):
            return sorted(items, key=lambda one: (str(one["type"]), _text(one)))
        case "managedFields" if maps:
            return sorted(items, key=lambda one: [one.get(k, "") for k in ("manager", "operation", "subresource")])
        case "resources" | "groups" if maps and all("name" in one or "resource" in one for one in items):
            return sorted(items, key=lambda one: str(one.get("name", one.get("resource"))))
        case "causes":
            return sorted(items, key=_text)
    return items


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def normalise(body: Any, names: Names) -> Any:
    """A copy of `body` in which everything that may differ between servers is named."""
    names.note_generated(body)
    is_list = isinstance(body, dict) and isinstance(body.get("items"), list) and str(body.get("kind")).endswith("List")
    if is_list:
        kind = body["kind"][:-4]
        body = body | {"items": [one for one in body["items"] if not _by_controller(kind, one)]}
    found = _Walk(names).value(body)
    if isinstance(found, dict) and found.get("kind") == "Table":
        _normalise_table(found, names)
    elif is_list:
        found["items"].sort(key=_object_order)
    return found


def _by_controller(kind: str, item: Any) -> bool:
    return isinstance(item, dict) and (kind, (item.get("metadata") or {}).get("name")) in CONTROLLER_OBJECTS


def _object_order(item: Any) -> tuple[str, str, str]:
    meta = (item.get("metadata") if isinstance(item, dict) else None) or {}
    return str(meta.get("namespace", "")), str(meta.get("name", "")), _text(item)


def _normalise_table(table: dict[str, Any], names: Names) -> None:
    if columns := table.get("columnDefinitions"):
        names.columns = [str(one.get("name", "")).lower() for one in columns]
    rows = table.get("rows") or []
    for row in rows:
        cells = row.get("cells") or []
        for number, (cell, column) in enumerate(zip(cells, names.columns, strict=False)):
            aged = isinstance(cell, str) and (AGE.fullmatch(cell) or cell in ("<time>", "<invalid>"))
            if column in AGE_COLUMNS and aged:
                cells[number] = "<age>"
    table["rows"] = sorted(rows, key=lambda row: (_object_order(row.get("object"))[:2], _text(row.get("cells"))))


def without_managed_fields(value: Any) -> Any:
    match value:
        case dict():
            return {key: without_managed_fields(one) for key, one in value.items() if key != "managedFields"}
        case list():
            return [without_managed_fields(one) for one in value]
    return value


def differences(expected: Any, actual: Any, path: str = "") -> list[dict[str, Any]]:
    """Where two values differ, as {path, expected, actual}."""
    match expected, actual:
        case dict(), dict():
            return [
                one
                for key in sorted({*expected, *actual})
                for one in differences(expected.get(key, ABSENT), actual.get(key, ABSENT), path + _segment(key))
            ]
        case list(), list():
            return [
                one
                for number in range(max(len(expected), len(actual)))
                for one in differences(_item(expected, number), _item(actual, number), f"{path}[{number}]")
            ]
    if expected == actual and isinstance(expected, bool) is isinstance(actual, bool):
        return []
    return [{"path": path or ".", "expected": expected, "actual": actual}]


def _segment(key: str) -> str:
    return f".{key}" if re.fullmatch(r"[A-Za-z0-9_$-]+", key) else f"[{json.dumps(key)}]"


def _item(items: list[Any], number: int) -> Any:
    return items[number] if number < len(items) else ABSENT


def substituted(value: Any, variables: Mapping[str, Any]) -> Any:
    """`value` with every `${name}` replaced. Raises KeyError for a name that an earlier step did not deliver."""
    match value:
        case str():
            whole = re.fullmatch(r"\$\{(\w+)\}", value)
            if whole:
                return variables[whole[1]]
            return re.sub(r"\$\{(\w+)\}", lambda found: str(variables[found[1]]), value)
        case list():
            return [substituted(one, variables) for one in value]
        case dict():
            return {substituted(key, variables): substituted(one, variables) for key, one in value.items()}
    return value
