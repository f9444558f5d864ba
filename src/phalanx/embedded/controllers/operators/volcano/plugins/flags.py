"""A plugin's arguments, as Go's flag package reads them: `--x=y`, `-x=y` and `--x y`. An unknown or invalid one ends
the reading, and the arguments after it keep their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


def read_flags(arguments: Sequence[str], defaults: Mapping[str, str | int | bool]) -> dict[str, str | int | bool]:
    """Return the defaults with what the arguments say instead."""
    found, rest = dict(defaults), list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        bare = name.lstrip("-")
        if not name.startswith("-") or len(name) - len(bare) > 2 or bare not in defaults:
            break
        default = defaults[bare]
        if not equals:
            if isinstance(default, bool):
                value = "true"
            elif rest:
                value = rest.pop(0)
            else:
                break
        read = _read(value, default)
        if read is None:
            break
        found[bare] = read
    return found


def _read(value: str, default: str | int | bool) -> str | int | bool | None:
    if isinstance(default, bool):
        return True if value in _TRUE else False if value in _FALSE else None
    if isinstance(default, int):
        return int(value) if value.lstrip("+-").isdigit() else None
    return value
