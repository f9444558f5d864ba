"""`cli/cluster/target.py`: which cluster a command talks to."""

from __future__ import annotations

import asyncio

import pytest

from phalanx.cli.cluster.target import require_namespace
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import Kind
from phalanx.errors import PhalanxError


class _WithoutNamespaces(Connection):
    def __init__(self, code: int) -> None:
        super().__init__("https://cluster", headers={}, tls=None)
        self._code = code

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        raise ApiRefusal(self._code, "", f'{kind.plural} "{name}" not found')


def test_a_namespace_that_does_not_exist_is_told_as_far_as_one_may_look() -> None:
    with pytest.raises(PhalanxError, match=r"there is no namespace teem at https://cluster\. `kubectl get namespaces`"):
        asyncio.run(require_namespace(_WithoutNamespaces(404), "teem"))
    asyncio.run(require_namespace(_WithoutNamespaces(403), "teem"))
