"""Parse label and field selectors. A selector from the query of a request becomes a function that tests objects.

The grammar is that of k8s.io/apimachinery/pkg/labels (`a=b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, `a`, `!a`, `a>1`,
`a<1`, joined by commas) and pkg/fields (`a=b`, `a==b`, `a!=b`). A selector is parsed once for each request and compiled
to closures, because a watch calls it for every change of an object of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request
from phalanx.embedded.apimachinery.schema import formats

Object = dict[str, Any]
Predicate = Callable[[Object], bool]
LabelTest = Callable[[Mapping[str, str]], bool]

_SIGNS = frozenset({"=", "==", "!=", "(", ")", ",", "<", ">"})
_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LEAST, _MOST = -(2**63), 2**63 - 1  # the smallest and the largest int64
_TERM = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)  # a backslash escapes the next character
_INTEGER_RULE = "for 'Gt', 'Lt' operators, the value must be an integer"


class _Tokens:
    """The words and signs of a label selector, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.items, self.at = text, _TOKEN.findall(text.rstrip()), 0

    def peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def take(self) -> str:
        found = self.peek()
        self.at += 1
        return found

    def expect(self, *wanted: str) -> str:
        found = self.take()
        if found not in wanted:
            raise _unparsable(f"found '{found}', expected: " + " or ".join(f"'{one}'" for one in wanted))
        return found


def _unparsable(why: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {why}")


@cached(4096)
def labels(text: str) -> LabelTest | None:
    """Return a function that tests the labels of an object; None for an empty selector. Raises `StatusError` 400."""
    tokens, tests = _Tokens(text), []
    if not tokens.peek():
        return None
    if tokens.peek() in _SIGNS:
        raise bad_request(f"found '{tokens.peek()}', expected: !, identifier, or 'end of string'")
    while True:
        tests.append(_requirement(tokens))
        if not tokens.peek():
            break
        if (found := tokens.take()) != ",":
            raise bad_request(f"found '{found}', expected: ',' or 'end of string'")
        if not tokens.peek() or tokens.peek() in _SIGNS:
            raise bad_request(f"found '{tokens.peek()}', expected: identifier after ','")
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def _requirement(tokens: _Tokens) -> LabelTest:
    if tokens.peek() == "!":
        tokens.take()
        absent = _key(tokens)
        return lambda labels: absent not in labels
    key = _key(tokens)
    match tokens.peek():
        case "" | ",":
            return lambda labels: key in labels
        case "=" | "==":
            tokens.take()
            value = _value(key, _literal(tokens))
            return lambda labels: labels.get(key) == value
        case "!=":
            tokens.take()
            other = _value(key, _literal(tokens))
            return lambda labels: labels.get(key) != other
        case "in" | "notin" as operator:
            tokens.take()
            values = _values(key, tokens)
            if operator == "in":
                return lambda labels: labels.get(key) in values
            return lambda labels: labels.get(key) not in values
        case ">" | "<" as operator:
            tokens.take()
            return _compared(key, operator, _literal(tokens))
        case other_token:
            raise _unparsable(f"found '{other_token}', expected: in, notin, =, ==, !=, gt, lt")


def _key(tokens: _Tokens) -> str:
    found = _identifier(tokens)
    if problems := formats.qualified_name(found):
        shown = found.replace('"', '\\"')
        raise _unparsable(f'<nil>: Invalid value: "{shown}": {"; ".join(problems)}')
    return found


def _literal(tokens: _Tokens) -> str:
    """Return the value after an operator; "" if no value follows (`a=`)."""
    return "" if tokens.peek() in ("", ",") else _identifier(tokens)


def _identifier(tokens: _Tokens) -> str:
    found = tokens.take()
    if not found or found == "!" or found in _SIGNS:
        raise _unparsable(f"found '{found}', expected: identifier")
    return found


def _value(key: str, found: str) -> str:
    _check_values(key, [found])
    return found


def _check_values(key: str, found: Iterable[str], more: Iterable[str] = ()) -> None:
    """Check the values of a requirement. `more`: further errors. Raises `StatusError` 400 with all errors."""
    wrong = list(more)
    for at, one in enumerate(found):
        if problems := formats.label_value(one):
            shown = one.replace('"', '\\"')
            wrong.append(f'values[{at}][{key}]: Invalid value: "{shown}": {"; ".join(problems)}')
    if wrong:
        raise _unparsable(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")


def _values(key: str, tokens: _Tokens) -> frozenset[str]:
    if (opened := tokens.take()) != "(":
        raise _unparsable(f"found '{opened}' expected: '('")
    if not tokens.peek() or tokens.peek() == "!" or tokens.peek() in _SIGNS - {",", ")"}:
        raise _unparsable(f"found '{tokens.peek()}', expected: ',', ')' or identifier")
    found = {"" if tokens.peek() in (",", ")") else tokens.take()}
    while tokens.expect(",", ")") == ",":
        found.add("" if tokens.peek() in (",", ")") else tokens.take())
    _check_values(key, sorted(found))
    return frozenset(found)


def _compared(key: str, operator: str, text: str) -> LabelTest:
    bound = _integer(text)
    wrong = [f'values[0]: Invalid value: "{text}": {_INTEGER_RULE}'] if bound is None else []
    _check_values(key, [text], wrong)
    assert bound is not None  # otherwise `_check_values` has raised an error

    def test(labels: Mapping[str, str]) -> bool:
        said = _integer(labels.get(key, ""))
        if said is None:
            return False
        return said > bound if operator == ">" else said < bound

    return test


def _integer(text: str) -> int | None:
    """Return the number; None if the string is not an integer of 64 bits."""
    found = int(text) if _INTEGER.fullmatch(text) else None
    return found if found is not None and _LEAST <= found <= _MOST else None


def fields(text: str) -> list[tuple[str, str, bool]]:
    """Return a triple for each term of a field selector: the field, the value, and True if they must be equal or False
    if they must differ. Raises `StatusError` 400."""
    found = []
    for term in _TERM.findall(text):
        match = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        found.append((match[1], _unescaped(match[3]), match[2] != "!="))
    return found


def _unescaped(value: str) -> str:
    """Return the value of a term of a field selector, without its backslashes. Raises `StatusError` 400."""
    found, signs = [], iter(value)
    for sign in signs:
        if sign == "=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(sign)}")
        if sign == "\\" and (sign := next(signs, "")) not in ("\\", ",", "="):
            raise bad_request(f"invalid field selector: invalid escape sequence: \\{sign}")
        found.append(sign)
    return "".join(found)


def predicate(resource: Resource, label_text: str, field_text: str) -> Predicate | None:
    """Return a function that tests an object against both selectors of a query; None if they select every object."""
    by_labels = labels(label_text) if label_text else None
    terms = fields(field_text) if field_text else []
    for label, _, _ in terms:
        _check_label(resource, label)
    own = any(label not in ("metadata.name", "metadata.namespace") for label, _, _ in terms)
    strategy = resource.strategy
    if by_labels is None and not terms:
        return None

    def test(obj: Object) -> bool:
        meta = obj["metadata"]
        if by_labels is not None and not by_labels(meta.get("labels") or {}):
            return False
        if not terms:
            return True
        known: Mapping[str, str] = strategy.selectable_fields(obj) if own else {}
        for label, value, equal in terms:
            found = meta.get(label[9:], "") if label.startswith("metadata.") else known.get(label, "")
            if (found == value) is not equal:
                return False
        return True

    return test


def named(field_text: str) -> str | None:
    """Return the name of the only object that a field selector can select; None if the selector names no object."""
    if "metadata.name" not in field_text:
        return None
    return next((value for label, value, equal in fields(field_text) if label == "metadata.name" and equal), None)


def _check_label(resource: Resource, label: str) -> None:
    own = tuple(resource.strategy.selectable_names())
    if label in ("metadata.name", "metadata.namespace") or label in own:
        return
    if resource.group == "batch" and own:
        raise bad_request(f'field label "{label}" not supported for {resource.kind}')
    if own or resource.custom:
        raise bad_request(f"field label not supported: {label}")
    raise bad_request(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')
