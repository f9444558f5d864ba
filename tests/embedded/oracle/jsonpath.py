"""JSON paths of the transcripts: `.a.b`, `.a["x/y"]`, `.l[0]`, `.l[*]`, `.l[?k.m=="v"]`, `.l[#]` (length)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

ABSENT = "<absent>"
Token = tuple[str, Any]


@cache
def parse(text: str) -> tuple[Token, ...]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at] == ".":
            at += 1
            end = at
            while end < len(text) and text[end] not in ".[":
                end += 1
            if end > at:
                tokens.append(("key", text[at:end]))
            at = end
        elif text[at] == "[":
            inner, at = _bracketed(text, at)
            tokens.append(_bracket(inner))
        else:
            raise ValueError(f"path {text!r} must start with . or [")
    return tuple(tokens)


def _bracketed(text: str, at: int) -> tuple[str, int]:
    """Return the text between a bracket and its partner, and the position after it."""
    depth, end, quoted = 1, at + 1, False
    while depth:
        match text[end]:
            case '"':
                quoted = not quoted
            case "[" if not quoted:
                depth += 1
            case "]" if not quoted:
                depth -= 1
        end += 1
    return text[at + 1 : end - 1].strip(), end


def _bracket(inner: str) -> Token:
    if inner == "*":
        return "all", None
    if inner == "#":
        return "length", None
    if inner.startswith("?"):
        left, _, right = inner[1:].partition("==")
        left = left.strip()
        try:
            wanted = json.loads(right)
        except ValueError:
            wanted = right.strip()
        return "filter", (parse(left if left[0] in ".[" else "." + left), wanted)
    if inner.startswith('"'):
        return "key", json.loads(inner)
    return "index", int(inner)


def resolve(value: Any, tokens: tuple[Token, ...]) -> list[Any]:
    """All values that a parsed path selects."""
    nodes = [value]
    for token in tokens:
        nodes = [found for node in nodes for found in _step(node, token)]
    return nodes


def _step(node: Any, token: Token) -> list[Any]:
    match token, node:
        case ("key", name), dict() if name in node:
            return [node[name]]
        case ("index", number), list() if -len(node) <= number < len(node):
            return [node[number]]
        case ("all", _), list():
            return node
        case ("all", _), dict():
            return [node[key] for key in sorted(node)]
        case ("length", _), list() | dict():
            return [len(node)]
        case ("filter", (path, wanted)), list():
            return [one for one in node if wanted in resolve(one, path)]
    return []


def select(value: Any, path: str) -> list[Any]:
    return resolve(value, parse(path))


def value_at(value: Any, path: str) -> Any:
    """What subset comparison looks at: a value, a list for [*], or ABSENT."""
    tokens = parse(path)
    found = resolve(value, tokens)
    if any(kind == "all" for kind, _ in tokens):
        return found
    return found[0] if found else ABSENT


def remove(value: Any, path: str) -> None:
    """Take out, in place, what a path selects; list items become a mark, so that the others keep their places."""
    *way, last = parse(path)
    for parent in resolve(value, tuple(way)):
        match last, parent:
            case ("key", name), dict():
                parent.pop(name, None)
            case ("index", number), list() if -len(parent) <= number < len(parent):
                parent[number] = "<ignored>"
            case ("all", _), list():
                parent.clear()
            case ("filter", (inner, wanted)), list():
                parent[:] = [one for one in parent if wanted not in resolve(one, inner)]
