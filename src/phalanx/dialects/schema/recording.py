"""Translate a scheduler's events and actions into plain values for recordings, and back.

Each event and each action of a plan becomes a mapping of its fields. In this mapping, the value of the key `is` is the
class name of an event, or the name that `ACTION_NAMES` has for an action. Enumerations become their values, and tuples
become lists. No field is left out, so the events and actions that are read from a recording equal the recorded ones.
Therefore, if a replay of a recording leads to other decisions, the scheduler has changed."""

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
NAMES: Mapping[type[object], str] = {each: each.__name__ for each in get_args(Event)} | dict(ACTION_NAMES)
CLASSES: dict[str, type[object]] = {name: kind for kind, name in NAMES.items()}


class Unreadable(ValueError):
    """The line of a recording is not an event or action of this version. The exception's text has the reason."""


def written(item: News) -> dict[str, Any]:
    """Return an event or action as plain values: mappings, lists, texts, numbers."""
    plain = msgspec.to_builtins(item)
    if isinstance(item, tuple):  # actions are tuples, which msgspec would write without the names of their fields
        plain = dict(zip(item._fields, plain, strict=True))
    return {KIND: NAMES[type(item)], **finite(plain)}


def read(plain: Mapping[str, object]) -> Any:
    """Return the event or action that plain values describe. Raise `Unreadable` if they describe none."""
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


def row_of(fields: Mapping[str, object], kind: Any) -> list[object]:
    """Return the fields of a named tuple in order. Absent fields have their defaults. Raise `Unreadable` if a field
    without default is absent."""
    if missing := [name for name in kind._fields if name not in fields and name not in kind._field_defaults]:
        raise Unreadable(f"{NAMES[kind]}: Object missing required field `{missing[0]}`")
    defaults = {name: msgspec.to_builtins(value) for name, value in kind._field_defaults.items()}
    return [fields[name] if name in fields else defaults[name] for name in kind._fields]


def finite(value: object) -> Any:
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
