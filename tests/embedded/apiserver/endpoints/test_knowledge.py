"""`endpoints/parts/knowledge.py`: the form of written objects, and admission without webhooks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.parts import knowledge as module
from phalanx.embedded.apiserver.endpoints.parts.knowledge import Knowledge
from tests.embedded.apiserver.registry.kinds.writes import resource

USER = User(name="ada")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the steps of admission that are called; none is carried out."""
    found: list[str] = []
    for name in ("admit", "grown"):
        monkeypatch.setattr(module.chain, name, lambda *_, name=name: found.append(name))
    monkeypatch.setattr(module.signing, "ask_as", lambda *_: found.append("ask_as"))
    monkeypatch.setattr(module.volcano, "check_deletion", lambda *_: found.append("volcano"))
    return found


def without_webhooks() -> Knowledge:
    found = object.__new__(Knowledge)
    found._webhooks, found._reader = SimpleNamespace(any=False), SimpleNamespace()  # type: ignore[assignment]  # doubles
    policies: Any = SimpleNamespace(mutate=lambda *_, beneath: False, validate=lambda *_, operation: ["a warning"])
    found._policies = policies
    return found


def config(**fields: Any) -> Object:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, **fields}


def test_unknown_fields_are_removed_and_returned() -> None:
    obj = config(data={"a": "1"}, color="red")
    assert without_webhooks().check_schema(resource("configmaps"), obj) == ["color"]
    assert obj == config(data={"a": "1"})


def test_an_object_in_another_form_is_refused() -> None:
    with pytest.raises(StatusError, match='ConfigMap in version "v1" cannot be handled as a ConfigMap: ') as raised:
        without_webhooks().check_schema(resource("configmaps"), config(data=[1]))
    assert raised.value.code == 400


@pytest.mark.parametrize(
    ("kind", "old", "groups", "steps"),
    [
        (resource("configmaps"), None, (), ["admit"]),
        (resource("configmaps"), config(), (), ["admit", "grown"]),
        (resource("configmaps"), config(), ("system:masters",), ["admit"]),
        (resource("certificatesigningrequests", "certificates.k8s.io"), None, (), ["ask_as", "admit"]),
    ],
)
def test_the_quota_of_bytes_holds_for_changes_of_users(
    calls: list[str], kind: Resource, old: Object | None, groups: tuple[str, ...], steps: list[str]
) -> None:
    assert not without_webhooks().admit(kind, config(), old, User(name="ada", groups=groups))
    assert calls == steps


async def test_without_webhooks_no_write_waits(calls: list[str]) -> None:
    found, kind, warned = without_webhooks(), resource("configmaps"), list[str]()
    assert not found.has_webhooks
    assert await found.consult(kind, config(), None, USER, dry_run=False) is None
    assert await found.judge(kind, config(), None, USER, dry_run=False) is None
    assert not await found.allow_deletion(kind, config(), USER, warned.extend, dry_run=False)
    assert (calls, warned) == (["volcano"], ["a warning"])
