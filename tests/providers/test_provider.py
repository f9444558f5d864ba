"""`providers/provider.py`: empty nodes are removed, and their Node objects with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.client.kind import NODES, PODS
from phalanx.providers.provider import BINDINGS_S, REMOVING, EmptyNodes, Status
from tests.kube.double import Api, Client, node, pod


class Remover:
    """A provider that notes the nodes to remove, and keeps those of `refused`."""

    def __init__(self, **refused: str) -> None:
        self.removed: list[str] = []
        self.refused = refused

    async def scale(self, group: str, add: Any, remove: Any) -> dict[str, str]:
        self.removed += remove
        return self.refused

    async def status(self, group: str) -> Status:
        return Status()


def emptied(
    api: Api, by: Remover, names: list[str], monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]
) -> Any:
    async def sleep(seconds: float) -> None:
        assert seconds == BINDINGS_S
        meanwhile()

    monkeypatch.setattr("phalanx.providers.provider.asyncio.sleep", sleep)
    return asyncio.run(EmptyNodes(by, Client(api)).scale("g", (), names))  # type: ignore[arg-type]  # a double


def test_an_empty_node_is_removed_and_its_node_object_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    api, by = Api(), Remover()
    for name in ("n1", "n2", "other"):
        api.put(NODES, node(name))
    daemon, done = pod("daemon", node="n1"), pod("done", node="n1")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "uid": "1"}]
    done["status"] = {"phase": "Succeeded"}
    for each in (daemon, done, pod("elsewhere", node="other")):
        api.put(PODS, each)
    assert emptied(api, by, ["n1", "n2", "g-9"], monkeypatch, lambda: None) == {}
    assert by.removed == ["n1", "n2", "g-9"], "a requested node that has not arrived is cancelled"
    assert list(api.objects[NODES]) == ["other"]


@pytest.mark.parametrize("cordoned", [False, True])
def test_a_node_with_a_pod_is_kept(cordoned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    api, by = Api(), Remover(n2="it is repaired")
    for name in ("n1", "n2"):
        api.put(NODES, {**node(name), "spec": {"unschedulable": True} if cordoned else {}})

    def bind() -> None:
        found = api.objects[NODES]["n1"]
        assert found["spec"]["unschedulable"], "it is cordoned before its pods are listed"
        assert (found["metadata"].get("annotations") or {}).get(REMOVING) == (None if cordoned else "g")
        api.put(PODS, pod("late", node="n1"))

    kept = emptied(api, by, ["n1", "n2"], monkeypatch, bind)
    assert kept == {"n1": "the pod default/late runs on node n1", "n2": "it is repaired"}
    assert by.removed == ["n2"]
    for each in api.objects[NODES].values():
        assert bool(each["spec"].get("unschedulable")) is cordoned, "what others cordoned stays so"
        assert REMOVING not in (each["metadata"].get("annotations") or {})


def test_a_restarted_scheduler_goes_on_with_removals() -> None:
    api = Api()
    for name, group in (("n1", "g"), ("n2", "h")):
        found = node(name)
        found["metadata"]["annotations"] = {REMOVING: group}
        api.put(NODES, found)
    status = asyncio.run(EmptyNodes(Remover(), Client(api)).status("g"))  # type: ignore[arg-type]  # a double
    assert status.removing == ("n1",)
