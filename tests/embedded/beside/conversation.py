"""A conversation: requests in order, drawn from a seed, that are sent to two API servers.

Texts may hold `${ns}` (the conversation's namespace), `${id}` (a word of the run for names without a namespace), and
`${rvN}`, `${uidN}`, `${continueN}`: the version, the identity and the next page in the answer to request N.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

Json = Any

JSON, YAML = "application/json", "application/yaml"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
CORE = "/api/v1/namespaces/${ns}"
REMOVED = object()  # the value of an edit that removes its place


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request.

    `body`: JSON, or a text that is sent as it is. `base`: the number of an earlier request whose answer is the body,
    changed by `edits` (path, value). `until`: repeat the request until this code comes, because servers take notice of
    definitions and policies late. `managed`: compare managed fields, too."""

    method: str
    path: str
    body: Json = None
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    base: int | None = None
    edits: Sequence[tuple[Sequence[str | int], Json]] = ()
    until: int = 0
    managed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    subject: str
    seed: int
    asks: Sequence[Ask]
    cleanup: Sequence[str]  # paths to delete afterwards, besides the namespace


@dataclass(slots=True)
class Talk:
    """A conversation that is being made. Each method adds a request and returns its number."""

    random: Random
    asks: list[Ask] = field(default_factory=list)
    cleanup: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, body: Json = None, media: str = JSON, **rest: Any) -> int:
        self.asks.append(Ask(method=method, path=path, body=body, media=media, **rest))
        return len(self.asks) - 1

    def get(self, path: str, accept: str = "", **rest: Any) -> int:
        headers = {**({"Accept": accept} if accept else {}), **rest.pop("headers", {})}
        return self.ask("GET", path, headers=headers, **rest)

    def post(self, path: str, body: Json, media: str = JSON, **rest: Any) -> int:
        return self.ask("POST", path, body, media, **rest)

    def put(self, path: str, body: Json, media: str = JSON, **rest: Any) -> int:
        return self.ask("PUT", path, body, media, **rest)

    def edit(self, path: str, base: int, *edits: tuple[Sequence[str | int], Json], **rest: Any) -> int:
        """PUT the answer to request `base` with `edits`, as `kubectl edit` does."""
        return self.ask("PUT", path, base=base, edits=edits, **rest)

    def patch(self, path: str, body: Json, media: str = MERGE, **rest: Any) -> int:
        return self.ask("PATCH", path, body, media, **rest)

    def apply(self, path: str, body: Json, manager: str, query: str = "", **rest: Any) -> int:
        query = f"fieldManager={manager}" + (f"&{query}" if query else "")
        return self.ask("PATCH", f"{path}?{query}", body, APPLY, managed=True, **rest)

    def delete(self, path: str, body: Json = None, **rest: Any) -> int:
        return self.ask("DELETE", path, body, **rest)

    def watch(self, path: str, since: int, query: str = "", accept: str = "") -> int:
        """Read the events after the answer to request `since`."""
        found = f"{path}?watch=1&resourceVersion=${{rv{since}}}&timeoutSeconds=2" + (f"&{query}" if query else "")
        return self.get(found, accept)


def changed(value: Json, edits: Sequence[tuple[Sequence[str | int], Json]]) -> Json:
    """Return `value` after the edits. Places whose parent is missing are made; others that do not fit are left out."""
    for path, new in edits:
        value = _changed(value, tuple(path), new)
    return value


def _changed(value: Json, path: tuple[str | int, ...], new: Json) -> Json:
    if not path:
        return new
    key, *rest = path
    match value, key:
        case list(), int() if 0 <= key < len(value):
            inner = [] if new is REMOVED and not rest else [_changed(value[key], tuple(rest), new)]
            return [*value[:key], *inner, *value[key + 1 :]]
        case list(), int() if key == len(value) and new is not REMOVED:
            return [*value, _changed(None, tuple(rest), new)]
        case ((dict() | None), str()):
            value = dict(value or {})
            if new is REMOVED and not rest:
                value.pop(key, None)
                return value
            return {**value, key: _changed(value.get(key), tuple(rest), new)}
    return value
