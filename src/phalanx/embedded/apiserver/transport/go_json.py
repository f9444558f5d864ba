"""Provide the messages of Go's encoding/json about syntax errors and duplicate fields, and limit the depth and size of
bodies.

Clients see these messages in responses 400 and in warnings, and Python's decoders have different messages. These
functions are not called for a valid body. `syntax_error` is called after decoding has failed. `duplicates` is called if
the number of keys before and after decoding differs.

The module also limits the depth of a body, and the expansion of aliases in YAML.

An alias in YAML repeats the whole value of its anchor, so a few lines can expand to billions of values. The values are
counted before any of them is created, as in go-yaml (which kube-apiserver uses), and the message is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Any

import msgspec
import yaml

from phalanx.embedded.apimachinery.limits import CAUSES, DEPTH, VALUES, extent

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_END = "unexpected end of JSON input"
_BLANKS = b" \t\r\n"
# a quote or colon that is written as an escape sequence; the encoder writes it without one
_WRITTEN_OUT = re.compile(rb"\\u00(?:22|3[aA])")


class _Wrong(Exception):
    """Raised at the first syntax error, with Go's message."""


def syntax_error(data: bytes) -> str:
    """Return the syntax error of a text that is not JSON; "" if it is JSON."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        at = _space(text, _value(text, _space(text, 0)))
        if at < len(text):
            raise _unexpected(text, at, "after top-level value")
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _unexpected(text: str, at: int, where: str) -> _Wrong:
    if at >= len(text):
        return _Wrong(_END)
    first = text[at].encode("utf-8", "surrogateescape")[0]  # Go's message shows the first byte as a character
    sign = {"'": "\\'", '"': '"'}.get(text[at], json.dumps(chr(first), ensure_ascii=False)[1:-1])
    if sign.startswith("\\u00"):
        sign = f"\\x{sign[-2:]}"
    elif not sign.isprintable():
        sign = f"\\u00{first:02x}"
    return _Wrong(f"invalid character '{sign}' {where}")


def _value(text: str, at: int) -> int:
    """Return the position after the value that begins at `at`."""
    sign = text[at : at + 1]
    match sign:
        case "{":
            return _members(text, at, "}", "after object key:value pair", _member)
        case "[":
            return _members(text, at, "]", "after array element", _value)
        case '"':
            return _string(text, at)
        case "t" | "f" | "n":
            return _literal(text, at, {"t": "true", "f": "false", "n": "null"}[sign])
    found = _NUMBER.match(text, at)
    if found is None:
        if sign == "-":
            raise _unexpected(text, at + 1, "in numeric literal")
        raise _unexpected(text, at, "looking for beginning of value")
    return found.end()


def _members(text: str, at: int, end: str, after: str, one: Any) -> int:
    at = _space(text, at + 1)
    if text[at : at + 1] == end:
        return at + 1
    while True:
        at = _space(text, one(text, at))
        sign = text[at : at + 1]
        if sign == end:
            return at + 1
        if sign != ",":
            raise _unexpected(text, at, after)
        at = _space(text, at + 1)


def _member(text: str, at: int) -> int:
    if text[at : at + 1] != '"':
        raise _unexpected(text, at, "looking for beginning of object key string")
    at = _space(text, _string(text, at))
    if text[at : at + 1] != ":":
        raise _unexpected(text, at, "after object key")
    return _value(text, _space(text, at + 1))


def _string(text: str, at: int) -> int:
    found = _STRING.match(text, at)
    assert found is not None  # the caller has checked that there is a quote
    end = found.end()
    if text[end : end + 1] == '"':
        return end + 1
    if text[end : end + 1] == "\\" and end + 1 < len(text):
        raise _unexpected(text, end + 1, "in string escape code")
    raise _unexpected(text, end, "in string literal")


def _literal(text: str, at: int, word: str) -> int:
    for number, sign in enumerate(word):
        if text[at + number : at + number + 1] != sign:
            raise _unexpected(text, at + number, f"in literal {word} (expecting '{sign}')")
    return at + len(word)


def duplicates(data: bytes, decoded: object) -> list[str]:
    """Return the paths of fields that occur twice in a JSON object, but only the first `CAUSES` of them."""
    if not _WRITTEN_OUT.search(data) and _count(data) <= _count(msgspec.json.encode(decoded)):
        return []
    return list(islice(_twice(json.loads(data, object_pairs_hook=tuple), ""), CAUSES))


def _count(data: bytes) -> int:
    """Return the number of places in a JSON text that look like the key of a field: a quote and a colon, perhaps with
    blanks in between."""
    return data.translate(None, _BLANKS).count(b'":')


def _twice(value: object, path: str) -> Iterator[str]:
    """Yield the paths of duplicate fields. In `value`, JSON objects are tuples of (key, value) pairs."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _twice(item, f"{path}[{number}]")
    elif isinstance(value, tuple):
        seen = set()
        for key, item in value:
            inner = f"{path}.{key}" if path else key
            if key in seen:
                yield inner
            seen.add(key)
            yield from _twice(item, inner)


_STRINGS = re.compile(rb'"(?:[^"\\]+|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [1 if sign in b"[{" else -1 for sign in range(256)]


class Unbounded(ValueError):
    """Raised for a body that exceeds a limit and is not read. If kube-apiserver has a message for this case, the
    exception has this message."""


def check_json(body: bytes) -> None:
    """Check the depth of a JSON text, which may be invalid. Raises `Unbounded` if it is nested too deeply."""
    if body.count(b"[") + body.count(b"{") <= DEPTH:
        return
    brackets = _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS)
    for place, depth in enumerate(accumulate(map(_STEPS.__getitem__, brackets))):
        if depth > DEPTH:
            raise Unbounded(f"invalid character '{chr(brackets[place])}' exceeded max depth")


def check_values(body: bytes, value: object) -> None:
    """Check the number of values in a JSON text. Raises `Unbounded` if there are too many."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") >= VALUES and extent(value, VALUES)[0] > VALUES:
        raise Unbounded(f"more than {VALUES} values")


def check_yaml(events: Iterator[yaml.Event]) -> None:
    """Read all events of a YAML document. Raises `Unbounded` if it is nested too deeply, has too many values, has
    aliases that expand to too many values, or has an anchor that contains an alias to itself."""
    # anchor -> the number of values in it, including the anchored value itself and expanded aliases
    sizes: dict[str | None, int] = {}
    # For each enclosing collection: its anchor, and the number of values before the collection.
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
