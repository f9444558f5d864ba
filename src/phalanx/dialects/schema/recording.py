"""Translates events and actions into plain values for recordings of a scheduler, and back.

An event, or an action of a plan, becomes a mapping of its fields, with its name under `is`: the class name of an event,
the name in `ACTION_NAMES` of an action. Enumerations become their values, tuples become lists. No field is left out, so
reading a recording returns equal events and actions. If a replay of a recording decides differently, the scheduler has
changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

import msgspec

from phalanx.model.event import Event
from phalanx.model.plan import ACTION_NAMES, Action

KIND = "is"
INFINITE = "float"  # JSON has no infinity, so it is written {"float": "inf"}, or "-inf"

News: TypeAlias = Event | Action
NAMES: Mapping[type[Any], str] = {each: each.__name__ for each in get_args(Event)} | dict(ACTION_NAMES)
CLASSES: dict[str, type[Any]] = {name: kind for kind, name in NAMES.items()}


class Unreadable(ValueError):
    """The line is not an event or action of this version. The text says why."""


def written(item: News) -> dict[str, Any]:
    """Return an event or action as plain values: mappings, lists, texts, numbers."""
    plain = msgspec.to_builtins(item)
    if isinstance(item, tuple):  # actions are tuples, which msgspec would write without the names of their fields
        plain = dict(zip(item._fields, plain, strict=True))
    return {KIND: NAMES[type(item)], **finite(plain)}


def read(plain: Mapping[str, Any]) -> Any:
    """Return the event or action from plain values. Raises `Unreadable`."""
    fields = dict(plain)
    name = fields.pop(KIND, None)
    kind = CLASSES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise Unreadable(f"{name!r} is neither an event nor an action (known: {', '.join(CLASSES)})")
    try:
        plain = infinite(fields)
        return msgspec.convert(row_of(plain, kind) if issubclass(kind, tuple) else plain, kind)
    except msgspec.ValidationError as error:
        raise Unreadable(f"{name}: {error}") from None


def row_of(fields: Mapping[str, Any], kind: Any) -> list[Any]:
    """Return the fields of a named tuple in order, with the defaults of absent fields. Raises `Unreadable`."""
    if missing := [name for name in kind._fields if name not in fields and name not in kind._field_defaults]:
        raise Unreadable(f"{NAMES[kind]}: Object missing required field `{missing[0]}`")
    defaults = {name: msgspec.to_builtins(value) for name, value in kind._field_defaults.items()}
    return [fields[name] if name in fields else defaults[name] for name in kind._fields]


def finite(value: Any) -> Any:
    """Return the value with each infinity, at any depth, replaced by a mapping."""
    match value:
        case float() if math.isinf(value):
            return {INFINITE: str(value)}
        case dict():
            return {key: finite(each) for key, each in value.items()}
        case list() | tuple():
            return [finite(each) for each in value]
        case _:
            return value


def infinite(value: Any) -> Any:
    """Return the value with each mapping from `finite` replaced by infinity."""
    match value:
        case {"float": "inf" | "-inf" as sign} if len(value) == 1:
            return float(sign)
        case dict():
            return {key: infinite(each) for key, each in value.items()}
        case list():
            return [infinite(each) for each in value]
        case _:
            return value
