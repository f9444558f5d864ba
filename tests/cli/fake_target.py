"""The API of `tests.kube.double` in place of the cluster to which a command connects."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

from phalanx.client.kind import JOBS, Kind
from tests.kube.double import Api, Client, Object

_TERM = re.compile(r"[^,( ]+(?: in \([^)]*\))?")


class Selecting(Client):
    """A connection with the label selectors that commands use: `KEY=VALUE`, `KEY` and `KEY in (VALUES)`."""

    server = "https://double"

    async def list(self, kind: Kind, namespace: str = "", **selectors: str) -> Object:
        found = await super().list(kind, namespace, **selectors)
        terms = _TERM.findall(selectors.get("labelSelector", ""))
        return {"items": [each for each in found["items"] if _is_in(each, namespace) and _selects(terms, each)]}


def _is_in(obj: Object, namespace: str) -> bool:
    return namespace in ("", obj["metadata"].get("namespace", ""))


def _selects(terms: list[str], obj: Object) -> bool:
    labels = obj["metadata"].get("labels") or {}
    for term in terms:
        key, _, several = term.partition(" in ")
        key, equals, value = key.partition("=")
        values = several.strip("()").split(",") if several else [value] if equals else [labels.get(key)]
        if key not in labels or labels[key] not in values:
            return False
    return True


def connect(monkeypatch: pytest.MonkeyPatch, api: Api, *commands: ModuleType) -> None:
    """Let the commands of these modules connect to `api`, which has no ledger."""

    @asynccontextmanager
    async def connected(target: Any) -> AsyncIterator[Client]:
        yield Selecting(api)

    for module in commands:
        monkeypatch.setattr(module, "connected", connected)
        monkeypatch.setattr(module, "find_ledger_of", lambda target, environment: None)


def with_jobs(monkeypatch: pytest.MonkeyPatch, command: ModuleType, *jobs: Object) -> Api:
    """Return an API with these Jobs, to which the command of the module connects."""
    api = Api()
    for each in jobs:
        api.put(JOBS, each)
    connect(monkeypatch, api, command)
    return api
