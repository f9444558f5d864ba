"""The columns of tables, and the texts of cells that several kinds share.

Ages and durations have the form that kubectl shows, with two to three significant figures.

Source of the thresholds: k8s.io/apimachinery/pkg/util/duration, HumanDuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400

# (upper bound in seconds, unit in seconds, letter of the unit, second unit in seconds or 0, letter of the second unit)
_STEPS = (
    (2 * MINUTE, 1, "s", 0, ""),
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * YEAR, DAY, "d", 0, ""),
    (8 * YEAR, YEAR, "y", DAY, "d"),
)


def human(duration_s: float) -> str:
    """Return a duration as text: `93s`, `4m30s`, `27h`, `5d2h`. A negative duration of less than two seconds is shown
    as `0s`, because clocks differ."""
    seconds = int(duration_s)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    for limit, unit, letter, beside, beside_letter in _STEPS:
        if seconds < limit:
            rest = seconds % unit // beside if beside else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{beside_letter}" if rest else "")
    return f"{seconds // YEAR}y"


def seconds_of(timestamp: str) -> float:
    """Return an RFC 3339 time in seconds since the epoch. Raises ValueError."""
    return datetime.fromisoformat(timestamp).timestamp()


def since(timestamp: str | None, now_s: float) -> str:
    """Return the time since `timestamp` as text; `<unknown>` if there is no timestamp."""
    if not timestamp:
        return "<unknown>"
    return human(now_s - seconds_of(timestamp))


_NAMES = ("Name", "Attacher")  # columns with one of these names have the OpenAPI format `name`

Object = dict[str, Any]
Cells = Callable[[Object, float], list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
    """A column of a Table."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printer:
    """The columns of a table, and the function for its rows. `cells(object, now_s)` returns one value for each column.
    `now_s`: the present time in seconds since the epoch."""

    columns: tuple[PrinterColumn, ...]
    cells: Cells


def columns(line: str) -> tuple[PrinterColumn, ...]:
    """Return the columns that a line describes: `Name | Value:integer | Node+`."""
    return tuple(_column(text.strip()) for text in line.split("|"))


def _column(text: str) -> PrinterColumn:
    text, wide = text.removesuffix("+"), text.endswith("+")
    name, _, kind = text.partition(":")
    return PrinterColumn(
        name=name,
        type=kind or "string",
        format="name" if name in _NAMES and not kind else "",
        priority=1 if wide else 0,
    )


def age(obj: Object, now_s: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now_s)


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Return labels as text: `a=b,c=d`; `<none>` without labels."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else "<none>"


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return a label selector in kubectl's form: `a=b,c in (d,e),!f`; `<none>` if it selects nothing."""
    if not selector:
        return "<none>"
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        key, values = term["key"], ",".join(sorted(term.get("values") or ()))
        words = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, words.get(term["operator"], "<error>")))
    return ",".join(text for _, text in sorted(terms)) or "<none>"


def containers_text(template: Object | None) -> tuple[str, str]:
    """Return the names and the images of a pod template's containers."""
    found = ((template or {}).get("spec") or {}).get("containers") or ()
    return ",".join(one["name"] for one in found), ",".join(one.get("image", "") for one in found)


def condition(obj: Object, kind: str) -> bool:
    found = obj.get("status", {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in found)


def name_and_age(*between: Callable[[Object], Any]) -> Cells:
    """Return a function that returns the cells of a row: Name, a cell for each function in `between`, and Age."""
    return lambda obj, now_s: [obj["metadata"]["name"], *(cell(obj) for cell in between), age(obj, now_s)]
