"""Limits on the depth of a request's body, and on the expansion of YAML.

An alias in YAML repeats the whole value of its anchor, so a few lines can expand to billions of values. They are
counted before any value is created, as in go-yaml of the real server, with the same message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import yaml

from phalanx.embedded.apimachinery.limits import DEPTH, VALUES, extent

_STRINGS = re.compile(rb'"(?:[^"\\]+|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [1 if sign in b"[{" else -1 for sign in range(256)]


class Unbounded(ValueError):
    """A body that is not read. The text is the real server's where it has one."""


def check_json(body: bytes) -> None:
    """Raises `Unbounded` if a text is nested too deep. The text may be invalid JSON."""
    if body.count(b"[") + body.count(b"{") <= DEPTH:
        return
    brackets = _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS)
    for place, depth in enumerate(accumulate(map(_STEPS.__getitem__, brackets))):
        if depth > DEPTH:
            raise Unbounded(f"invalid character '{chr(brackets[place])}' exceeded max depth")


def check_values(body: bytes, value: Any) -> None:
    """Raises `Unbounded` if a JSON text contains too many values."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") >= VALUES and extent(value, VALUES)[0] > VALUES:
        raise Unbounded(f"more than {VALUES} values")


def check_yaml(events: Iterator[yaml.Event]) -> None:
    """Read the events of a document to its end. Raises `Unbounded`: too deep, too many values, aliases that stand for
    too much, an anchor within itself."""
    sizes: dict[str | None, int] = {}  # anchor -> values, itself and aliases below it included
    # For each enclosing collection: its anchor, and the number of values before it.
    open_: list[tuple[str | None, int]] = []
    values = aliased = 0
    for event in events:
        match event:
            case yaml.AliasEvent(anchor=name):
                if any(name == one for one, _ in open_):
                    raise Unbounded(f"anchor '{name}' value contains itself")
                values += sizes.get(name, 0) + 1
                aliased += sizes.get(name, 0)
            case yaml.ScalarEvent(anchor=name):
                values += 1
                if name is not None:
                    sizes[name] = 1
            case yaml.CollectionStartEvent(anchor=name):
                open_.append((name, values))
                values += 1
                if len(open_) > DEPTH:
                    raise Unbounded("exceeded max depth")
            case yaml.CollectionEndEvent():
                name, before = open_.pop()
                if name is not None:
                    sizes[name] = values - before
        if values > VALUES:
            if aliased > values // 2:
                raise Unbounded("document contains excessive aliasing")
            raise Unbounded(f"more than {VALUES} values")
