"""ReplicationControllers, the older form of ReplicaSets."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.apiserver.registry.kinds.tables import MERGE, named, refused, row

CONTROLLERS = "/api/v1/namespaces/default/replicationcontrollers"
POD = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_replication_controller_takes_labels_of_its_template(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            made = await client.make(CONTROLLERS, named("r", spec={"template": POD}))
            assert (made["spec"]["selector"], made["metadata"]["labels"]) == ({"app": "a"}, {"app": "a"})
            assert (made["spec"]["replicas"], made["status"]) == (1, {"replicas": 0})
            assert (await row(client, CONTROLLERS))[:4] == ["r", 1, 0, 0]
            scale = await client.ask("PATCH", f"{CONTROLLERS}/r/scale", {"spec": {"replicas": 3}}, MERGE)
            assert (scale.code, scale.body["spec"]["replicas"]) == (200, 3)
            other = {"spec": {"template": POD, "selector": {"app": "b"}}}
            assert "does not match template" in await refused(client, CONTROLLERS, other)
            none = {"spec": {"selector": {"app": "b"}}}
            assert "spec.template: Required value" in await refused(client, CONTROLLERS, none)

    asyncio.run(scene())
