"""`lifetime/owner_states.py`: an owner is absent only if the server reports that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.embedded.controllers.lifetime.owner_states import OwnerStates, UnknownKind
from phalanx.embedded.controllers.lifetime.ownership import FOREGROUND, OwnerGraph, OwnerState, Reference, node_of

OWNER: dict[str, Any] = {"metadata": {"name": "j", "namespace": "default", "uid": "owner"}}
REFERENCE = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "owner"}
POD = node_of(PODS, {"metadata": {"name": "p", "namespace": "default", "uid": "p", "ownerReferences": [REFERENCE]}})
(BY,) = POD.owners


class Server:
    """A server with one Job, or with none. `served`: the kind of owners; None: it is not served. `reads`: what was
    read."""

    def __init__(self, job: Any, served: Kind | None = JOBS) -> None:
        self.job, self.served, self.reads = job, served, list[tuple[str, str]]()

    def named(self, api_version: str, name: str) -> Kind | None:
        return self.served

    async def get(self, kind: Kind, name: str, namespace: str) -> Any:
        self.reads.append((namespace, name))
        if isinstance(self.job, ApiRefusal):
            raise self.job
        return self.job

    def states(self, *known: Any) -> OwnerStates:
        graph, parts = OwnerGraph(), (self, self)
        for obj in known:
            graph.put(node_of(JOBS, obj))
        return OwnerStates(graph, *parts)  # type: ignore[arg-type]  # a double


def state(states: OwnerStates, owner: Reference = BY) -> OwnerState:
    return asyncio.run(states.of(POD, owner))


def test_a_known_owner_is_not_asked_for() -> None:
    server = Server(OWNER)
    assert state(server.states(OWNER)) is OwnerState.SOLID
    assert server.reads == []


@pytest.mark.parametrize(
    ("job", "found"),
    [
        (OWNER, OwnerState.SOLID),
        (
            {"metadata": {**OWNER["metadata"], "finalizers": [FOREGROUND], "deletionTimestamp": "now"}},
            OwnerState.WAITING,
        ),
        ({"metadata": {**OWNER["metadata"], "uid": "another"}}, OwnerState.ABSENT),
        (ApiRefusal(404, "NotFound", "no such job"), OwnerState.ABSENT),
    ],
    ids=["there", "waits for its dependents", "another has its name", "gone"],
)
def test_an_unknown_owner_is_read(job: Any, found: OwnerState) -> None:
    server = Server(job)
    states = server.states()
    assert [state(states), state(states)] == [found, found]
    assert len(server.reads) == (1 if found is OwnerState.ABSENT else 2), "only an absent one stays absent"


def test_a_refused_read_says_nothing() -> None:
    with pytest.raises(ApiRefusal, match="you may not"):
        state(Server(ApiRefusal(403, "Forbidden", "you may not")).states())


def test_an_owner_of_an_unserved_kind_may_exist() -> None:
    with pytest.raises(UnknownKind, match="p is owned by a Job of batch/v1, which is not served"):
        state(Server(OWNER, served=None).states())


def test_a_node_is_not_owned_by_an_object_of_a_namespace() -> None:
    node = node_of(NODES, {"metadata": {"name": "n", "uid": "n", "ownerReferences": [REFERENCE]}})
    assert asyncio.run(Server(OWNER).states().of(node, BY)) is OwnerState.ABSENT
