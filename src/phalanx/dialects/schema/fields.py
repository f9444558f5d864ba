"""Read a mapping that a user wrote. Each field is read by its name and type. An unknown field is an error.

An error (`Misread`) contains the path of the wrong value as keys and list positions, so that a caller who reads a file
can add the line number. The error's text names the wrong value and the allowed values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from phalanx.client.moment import MomentError, read_moment
from phalanx.client.quantity import QuantityError, amount
from phalanx.errors import PhalanxError
from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.queue import Bounds, Weights

Path: TypeAlias = tuple[str | int, ...]
Choice = TypeVar("Choice", bound=StrEnum)

LONGEST_S = 100 * 365 * 86400.0
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# The time formats of Slurm (sbatch(1), --time) that are unambiguous. MM:SS is left out, because some users read it as
# HH:MM.
_CLOCKS = (
    re.compile(r"(?P<h>\d+):(?P<m>[0-5]\d):(?P<s>[0-5]\d)"),
    re.compile(r"(?P<d>\d+)-(?P<h>\d\d?)(?::(?P<m>[0-5]\d)(?::(?P<s>[0-5]\d))?)?"),
)


class Misread(PhalanxError):
    """A value has the wrong type or is out of range. `path`: the keys and list positions that lead to the value."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(f"{written(path)}: {text}" if path else text)
        self.path, self.text = path, text


def written(path: Path) -> str:
    """Return a path as text, for instance `spec.quotas[1].limit.cpu`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".")


class Fields:
    """A mapping that the caller reads field by field. If a field is absent or null, the methods return a default."""

    def __init__(self, values: object, path: Path = ()) -> None:
        if not isinstance(values, Mapping):
            raise Misread(path, f"{_shown(values)} is not a mapping of names to values")
        self.values, self.path = values, path
        self._asked: list[str] = []

    def value(self, name: str) -> Any:
        self._asked.append(name)
        return self.values.get(name)

    def text(self, name: str, default: str = "") -> str:
        value = self.value(name)
        return default if value is None else _text(value, (*self.path, name))

    def name(self, name: str) -> str:
        """Return the text in a field. Raise Misread if it is absent or empty."""
        if not (found := self.text(name)):
            raise Misread((*self.path, name), f"it has no {name}")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            raise Misread((*self.path, name), f"{_shown(value)} must be true or false")
        return default if value is None else value

    def whole(self, name: str, default: int = 0, *, least: int = -(2**31), most: int = 2**31 - 1) -> int:
        found = self.whole_or_none(name, least=least, most=most)
        return default if found is None else found

    def whole_or_none(self, name: str, *, least: int = 0, most: int = 2**31 - 1) -> int | None:
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Misread((*self.path, name), f"{_shown(value)} is not a whole number from {least} to {most}")
        return value

    def number(self, name: str, default: float = 0.0, *, least: float = 0.0) -> float:
        value = self.value(name)
        return default if value is None else _number(value, (*self.path, name), least)

    def seconds(self, name: str, default: float = 0.0) -> float:
        found = self.seconds_or_none(name)
        return default if found is None else found

    def seconds_or_none(self, name: str) -> float | None:
        """Return a duration, written as a number of seconds or as a text such as `90s`, `15m`, `1h30m`, `2d`."""
        value = self.value(name)
        return None if value is None else duration_s(value, (*self.path, name))

    def choice(self, name: str, default: Choice) -> Choice:
        value = self.value(name)
        if value is None:
            return default
        kinds = type(default)
        if value not in [str(kind) for kind in kinds]:
            raise Misread((*self.path, name), f"{_shown(value)} is not one of {', '.join(kinds)}")
        return kinds(value)

    def amount(self, name: str, resource: str) -> int:
        """Return the quantity in a field; 0 if the field is absent. `resource`: the resource of the quantity, which
        determines the unit."""
        value = self.value(name)
        return 0 if value is None else _amount(resource, value, (*self.path, name))

    def amounts(self, name: str) -> Bounds:
        """Return the mapping of resources to quantities in a field. Quantities of 0 are included. Raise Misread for a
        negative quantity."""
        path = (*self.path, name)
        found = {resource: _amount(resource, value, (*path, resource)) for resource, value in self._pairs(name)}
        return tuple(sorted(found.items()))

    def weights(self, name: str, least: float = 0.0) -> Weights:
        """Return the mapping of names to numbers in a field. Raise Misread for a number below `least`."""
        path = (*self.path, name)
        return tuple(sorted((key, _number(value, (*path, key), least)) for key, value in self._pairs(name)))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_text(value, path) for value, path in self._entries(name))

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return the mapping of names to texts in a field, as pairs."""
        path = (*self.path, name)
        return tuple(sorted((key, _text(value, (*path, key))) for key, value in self._pairs(name)))

    def fields(self, name: str) -> Fields:
        """Return the mapping in the field of that name; an empty one if the field is absent."""
        value = self.value(name)
        return Fields({} if value is None else value, (*self.path, name))

    def each(self, name: str) -> Iterator[Fields]:
        return (Fields(value, path) for value, path in self._entries(name))

    def done(self) -> None:
        """Check that the caller has read all fields of the mapping. Raise Misread for a field that the caller has not
        read, because the schema has no field of that name."""
        for name in self.values:
            if name not in self._asked:
                near = get_close_matches(str(name), self._asked, 1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted({*self._asked}))}"
                raise Misread((*self.path, name), f"there is no such field; {hint}")

    def _pairs(self, name: str) -> list[tuple[str, object]]:
        value = self.value(name)
        if value is None:
            return []
        return [(str(key), one) for key, one in Fields(value, (*self.path, name)).values.items()]

    def _entries(self, name: str) -> Iterator[tuple[object, Path]]:
        value, path = self.value(name), (*self.path, name)
        if value is not None and not isinstance(value, list | tuple):
            raise Misread(path, f"{_shown(value)} is not a list")
        return ((one, (*path, at)) for at, one in enumerate(value or ()))


def duration_s(value: Any, path: Path = ()) -> float:
    """Return a duration in seconds. It is written as a number or as a text such as `1h30m`, `1:30:00` or `1-12`. Raise
    Misread if it is neither."""
    hint = "write seconds (90) or for instance 90s, 15m, 1h30m, 2d"
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if plain or (isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value)):
        seconds = float(value)
    elif isinstance(value, str) and _DURATION.fullmatch(value):
        seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(value))
    elif isinstance(value, str) and (clock := next(filter(None, (form.fullmatch(value) for form in _CLOCKS)), None)):
        seconds = sum(float(number or 0) * _UNITS_S[unit] for unit, number in clock.groupdict().items())
    else:
        raise Misread(path, f"{_shown(value)} is not a length of time; {hint}")
    if not 0.0 <= seconds <= LONGEST_S:
        raise Misread(path, f"{_shown(value)} is not from 0 s to a hundred years; {hint}")
    return seconds


def moment_s(value: object, path: Path = ()) -> float:
    """Return the seconds since the epoch of a time in RFC 3339. Raise Misread if it is not such a time."""
    try:
        return read_moment("nothing" if value is None else value)
    except MomentError as error:
        raise Misread(path, str(error)) from None


def _text(value: object, path: Path) -> str:
    if not isinstance(value, str):
        raise Misread(path, f"{_shown(value)} is not text; put it in quotes")
    return value


def _number(value: object, path: Path, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < least:
        raise Misread(path, f"{_shown(value)} is not a number of at least {least:g}")
    return float(value)


def _amount(resource: str, value: object, path: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Misread(path, f"{_shown(value)} is not a quantity; write for instance 500m, 2 or 1.5Gi")
    try:
        found = amount(resource, value)
    except QuantityError as error:
        raise Misread(path, str(error)) from None
    if not 0 <= found <= MAX_AMOUNT:
        raise Misread(path, f"{_shown(value)} is {'negative' if found < 0 else 'more than any cluster has'}")
    return found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
