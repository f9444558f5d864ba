"""What the server serves, once each: also what no preferred version has."""

from __future__ import annotations

import asyncio
from typing import Any

from phalanx.client.kind import Kind
from phalanx.embedded.controllers.runtime.discovery import discover

VERBS = ["list", "watch", "delete"]
SERVED = {
    "/api/v1": [],
    "/apis/scheduling.run.ai/v2": ["queues"],
    "/apis/scheduling.run.ai/v2alpha2": ["queues", "podgroups"],
}


class Server:
    async def request(self, method: str, path: str) -> Any:
        if path == "/apis":
            versions = [{"version": "v2"}, {"version": "v2alpha2"}]
            group = {"name": "scheduling.run.ai", "versions": versions, "preferredVersion": versions[0]}
            return {"groups": [group]}
        return {"resources": [{"name": one, "kind": one, "namespaced": True, "verbs": VERBS} for one in SERVED[path]]}


def test_a_resource_that_only_another_version_has_is_known_by_that() -> None:
    found = asyncio.run(discover(Server()))  # type: ignore[arg-type]  # calls of this one server

    def kind(version: str, name: str) -> Kind:
        return Kind(group="scheduling.run.ai", version=version, plural=name, name=name)

    assert found.kinds == (kind("v2", "queues"), kind("v2alpha2", "podgroups"))
    assert set(found.verbs) == set(found.kinds)
    assert len(found.named) == 3
