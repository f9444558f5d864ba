r"""Kubernetes' JSONPath. In a CustomResourceDefinition, JSONPath expressions name the fields for table columns, for
`/scale` and for field selectors.

Examples: `.spec.replicas`, `.metadata.labels.app\.kubernetes\.io/name`,
`.status.conditions[?(@.type=="Ready")].status`, `.spec.items[0]`, `.status.conditions[-1:].type`,
`.spec.items[*].name`, `.metadata.labels['app']`. kubectl's templates have more features (ranges, unions, functions),
which a CustomResourceDefinition may not use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from phalanx.embedded.apimachinery.caching import cached

_TOKEN = re.compile(
    r"""
    \.?\[\?\(\s*@(?P<filter>[^=!<>\s]+)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+)\s*\)\]
  | \.?\[(?P<index>-?\d+)\]
  | \.?\[(?P<first>-?\d*):(?P<end>-?\d*)\]
  | \.?\[(?P<all>\*)\] | \.(?P<each>\*)
  | \.?\[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
  | \.(?P<key>(?:[^.\[\]\\]|\\.)+)
    """,
    re.VERBOSE,
)

Step = Callable[[Any], Iterable[Any]]


@cached(1024)
def steps_of(path: str) -> tuple[Step, ...]:
    """Return the steps of a path. Raises ValueError if the string is not a path."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"{path!r} is not a JSON path: cannot read {text[place:]!r}")
        steps.append(_step(match))
        place = match.end()
    return tuple(steps)


def find(obj: object, path: str) -> list[object]:
    """Return every value at the path. The list is empty if a step finds no value."""
    values = [obj]
    for step in steps_of(path):
        values = [found for value in values for found in step(value)]
    return values


def _step(match: re.Match[str]) -> Step:
    if match["filter"]:
        return _filter(match["filter"], match["value"])
    if match["index"]:
        return _index(int(match["index"]))
    if match["first"] is not None:
        return _slice(*(int(match[name]) if match[name] else None for name in ("first", "end")))
    if match["all"] or match["each"]:
        return _each
    if match["quoted"]:
        return _key(re.sub(r"\\(.)", r"\1", match["quoted"][1:-1]))
    return _key(re.sub(r"\\(.)", r"\1", match["key"]))


def _key(key: str) -> Step:
    return lambda value: (value[key],) if isinstance(value, dict) and key in value else ()


def _index(place: int) -> Step:
    return lambda value: (value[place],) if isinstance(value, list) and -len(value) <= place < len(value) else ()


def _slice(first: int | None, end: int | None) -> Step:
    return lambda value: value[first:end] if isinstance(value, list) else ()


def _each(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _filter(path: str, literal: str) -> Step:
    if literal[0] in "'\"":
        wanted: Any = literal[1:-1]
    else:
        try:
            wanted = json.loads(literal)
        except ValueError:
            wanted = literal
    return lambda value: [item for item in (value if isinstance(value, list) else ()) if wanted in find(item, path)]
