"""`node/run/machine_node.py`: the node is registered as soon as the API server answers, and closes what it opened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.client.connection import ApiUnknown
from phalanx.embedded.node.run import machine_node


async def test_the_registration_is_tried_until_the_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [ApiUnknown("no answer"), {"metadata": {"uid": "u"}}]
    leases: list[Any] = []

    async def register(*_: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def renew_lease(connection: Any, *words: Any) -> None:
        leases.append(words)

    monkeypatch.setattr(machine_node, "register", register)
    monkeypatch.setattr(machine_node, "renew_lease", renew_lease)
    monkeypatch.setattr(machine_node, "_RETRY_S", 0.0)
    connection: Any = None
    registration: Any = SimpleNamespace(name="n1")
    assert await machine_node._register(connection, registration, 40) == {"metadata": {"uid": "u"}}
    assert leases == [("n1", "u", 40)]


@pytest.mark.parametrize("fenced", [True, False])
async def test_control_groups_and_firewall_rules_are_closed(fenced: bool) -> None:
    closed: list[str] = []
    fence = SimpleNamespace(close=lambda: closed.append("fence"), keep=None) if fenced else None
    around: Any = SimpleNamespace(cgroups=SimpleNamespace(close=lambda: closed.append("cgroups")), fence=fence)
    with pytest.raises(RuntimeError):
        async with machine_node._closing(around):
            raise RuntimeError
    assert closed == ["cgroups", "fence"][: 1 + fenced]
    around.tell = around.naming = SimpleNamespace(run=None)
    assert ("network" in machine_node._upkeep(around)) is fenced
