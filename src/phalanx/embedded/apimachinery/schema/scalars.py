"""Decode single values as Go does: strings, numbers, quantities, times and bytes. The error messages are Go's.

A decoder is a function with two arguments, a JSON value and a list. It returns the value in canonical form. Decoders of
objects append the paths of unknown fields to the list. The messages are those of sigs.k8s.io/json and of the
UnmarshalJSON methods of Go's types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.schema import quantity

Decoder = Callable[[Any, list[str]], Any]

_INT_LIMITS = {"int32": 2**31, "int64": 2**63}
_NUMBERS = ("int32", "int64", "float64")
# Python class -> Go's name for values of this class in decoded JSON.
_MAP_KINDS = {bool: "bool", int: "int64", float: "float64", str: "string", list: "slice", dict: "map"}
_BASE64 = "illegal base64"


class DecodeError(ValueError):
    """Raised for a value of the wrong type. `str()` returns the message of kube-apiserver's decoder, without its
    prefix. `place`: the path of the value with all indexes and keys, such as `.spec.containers[0].name`."""

    def __init__(self, template: str, *, typed: bool = False, value: object = None) -> None:
        super().__init__(template)
        self.template, self.owner, self.path, self.typed = template, "", "", typed
        self.value = value  # the value that has the wrong type
        self.place = ""
        self.parsed = False  # True if the type of the field parses JSON itself, as a time does

    def at(self, step: str) -> DecodeError:
        """Return this error with `step`, such as `.name` or `[0]`, added at the front of its place."""
        self.place = f"{step}{self.place}"
        return self

    def inside(self, field: str, owner: str) -> DecodeError:
        """Return this error with `field`, a field of the object type `owner`, added at the front of its path."""
        self.path = f"{field}.{self.path}" if self.path else field
        self.owner = self.owner or owner
        return self

    def __str__(self) -> str:
        if not self.typed:
            return self.template
        found, wanted = self.template.split("|")
        where = f"Go struct field {self.owner}.{self.path}" if self.path else "Go value"
        return f"json: cannot unmarshal {found} into {where} of type {wanted}"

    def converted(self) -> str:
        """Return the message of Go's converter from maps to structs, which decodes the result of an apply or of a
        strategic merge patch."""
        if not self.typed:
            return f"error decoding from json: {self.template}" if _BASE64 in self.template else self.template
        found, wanted = self.template.split("|")
        if self.parsed:
            return f"json: cannot unmarshal {found} into Go value of type {wanted}"
        held = _MAP_KINDS.get(type(self.value), "ptr")
        if wanted in _NUMBERS or wanted in ("string", "bool"):
            is_number = type(self.value) in (int, float)
            if is_number and (wanted in _NUMBERS or (wanted == "string" and held == "int64")):
                return f"cannot convert {held} to {wanted}"
            return f"unrecognized type: {wanted}"
        if wanted.startswith(("map[", "[]", "v1.ResourceList")):
            return f"cannot restore {'slice' if wanted[0] == '[' else 'map'} from {held}"
        return f"cannot restore struct from: {held}"


def text(go: str) -> Decoder:
    """Return a decoder for strings. `go`: the name of the Go type, for messages."""

    def decode_text(value: object, _: list[str]) -> object:
        if value.__class__ is not str:
            raise mismatch(value, go)
        return value

    return decode_text


_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/\r\n]")


def base64(value: object, _: list[str]) -> object:
    """Decode bytes: check that the value is a base64 string, and return that string."""
    if value.__class__ is not str:
        raise mismatch(value, "[]uint8")
    body = value.rstrip("=")
    if wrong := _NOT_BASE64.search(body):
        raise DecodeError(f"{_BASE64} data at input byte {wrong.start()}")
    if len(value) % 4 or len(value) - len(body) > 2:
        raise DecodeError(f"{_BASE64} data at input byte {len(body) - len(body) % 4}")
    return value


def boolean(value: object, _: list[str]) -> object:
    if value.__class__ is not bool:
        raise mismatch(value, "bool")
    return value


def integer(go: str) -> Decoder:
    limit = _INT_LIMITS.get(go, 2**63)

    def decode_integer(value: object, _: list[str]) -> object:
        if value.__class__ is not int or not -limit <= value < limit:
            raise mismatch(value, go)
        return value

    return decode_integer


def number(value: object, _: list[str]) -> object:
    if value.__class__ not in (int, float):
        raise mismatch(value, "float64")
    return value


def amount(value: object, _: list[str]) -> str:
    """Decode a quantity, and return its canonical form."""
    return _quantity(value, quantity.canonical)


def resource_amount(value: object, _: list[str]) -> str:
    """Decode a quantity of a resource list (such as requests, limits or capacity), and return its canonical form."""
    return _quantity(value, quantity.in_thousandths)


def _quantity(value: object, canonicalise: Callable[[str], str]) -> str:
    if value.__class__ is str:
        text = value
    elif value.__class__ in (int, float):
        text = str(value)
    else:
        raise DecodeError(quantity.FORMAT_ERROR, value=value)
    try:
        return canonicalise(text)
    except quantity.QuantityParseError as error:
        raise DecodeError(str(error), value=value) from None


def int_or_string(value: object, _: list[str]) -> object:
    if value.__class__ is int and not -(2**31) <= value < 2**31:
        raise mismatch(value, "int32")
    if value.__class__ not in (str, int):
        raise _unparsable(value, "int32")
    return value


def _unparsable(value: object, go: str) -> DecodeError:
    """Return the error of a Go type that parses its JSON itself, as times and quantities do."""
    error = mismatch(value, go)
    error.parsed = True
    return error


def _timed(value: object, canonicalise: Callable[[str], str]) -> str:
    if value.__class__ is not str:
        raise _unparsable(value, "string")
    return canonicalise(value)


def time(value: object, _: list[str]) -> str:
    return _timed(value, canonical_time)


def microtime(value: object, _: list[str]) -> str:
    return _timed(value, canonical_microtime)


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


@cached(4096)
def canonical_time(text: str) -> str:
    """Return the time as RFC 3339 in UTC with whole seconds. Raises DecodeError."""
    return _moment(text, "2006-01-02T15:04:05Z07:00").strftime("%Y-%m-%dT%H:%M:%SZ")


@cached(4096)
def canonical_microtime(text: str) -> str:
    """Return the time as RFC 3339 in UTC with six decimals of the second. `text` must have six decimals as well. Raises
    DecodeError."""
    layout = "2006-01-02T15:04:05.000000Z07:00"
    if text and not re.search(r":\d\d\.\d{6}(Z|[+-])", text):
        rest = re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "", text)
        wanted = ".000000" if rest != text else "2006"
        raise DecodeError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{wanted}"')
    return _moment(text, layout).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(text: str, layout: str) -> datetime:
    if not _RFC3339.fullmatch(text):
        raise DecodeError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError:
        raise DecodeError(f'parsing time "{text}": year out of range') from None
    except ValueError:
        raise DecodeError(f'parsing time "{text}": {_out_of_range(text)} out of range') from None


def _out_of_range(text: str) -> str:
    month, hour, minute, second = int(text[5:7]), int(text[11:13]), int(text[14:16]), int(text[17:19])
    if not 1 <= month <= 12:
        return "month"
    return "hour" if hour > 23 else "minute" if minute > 59 else "second" if second > 59 else "day"


def mismatch(value: object, go: str) -> DecodeError:
    match value:
        case bool():
            found = "bool"
        case int() | float():
            found = f"number {value}" if go.startswith(("int", "float")) else "number"
        case str():
            found = "string"
        case list():
            found = "array"
        case dict():
            found = "object"
        case _:
            found = "null"
    return DecodeError(f"{found}|{go}", typed=True, value=value)


_ESCAPES = {sign: f"\\{letter}" for sign, letter in zip('\\"\a\b\f\n\r\t\v', '\\"abfnrtv', strict=True)}


def go_quoted(text: str) -> str:
    """Return a string in quotes, as Go prints it with `%q`."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    signs = (_ESCAPES.get(sign) or (sign if sign.isprintable() else _escaped(ord(sign))) for sign in text)
    return f'"{"".join(signs)}"'


def _escaped(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
