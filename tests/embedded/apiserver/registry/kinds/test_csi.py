"""Kinds of CSI: stored, checked and shown. No component acts on them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.apiserver.registry.kinds.tables import MERGE, is_immutable, named, refused, row, warning

STORAGE, SPACE = "/apis/storage.k8s.io/v1", "/namespaces/default"
DRIVERS, NODES, ATTACHMENTS = f"{STORAGE}/csidrivers", f"{STORAGE}/csinodes", f"{STORAGE}/volumeattachments"
CAPACITIES = f"{STORAGE}{SPACE}/csistoragecapacities"
ATTACHED = {"attacher": "a.example", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
REFUSED: list[Any] = [
    (DRIVERS, {"spec": {"fsGroupPolicy": "Some"}}, 'spec.fsGroupPolicy: Unsupported value: "Some"'),
    (DRIVERS, {"spec": {"tokenRequests": [{"audience": "", "expirationSeconds": 9}]}}, "less than 10 minutes"),
    (NODES, {"spec": {"drivers": [{"name": "a.b", "nodeID": ""}]}}, "spec.drivers[0].nodeID: Required value"),
    (NODES, {"spec": {"drivers": [{"name": "a", "nodeID": "i"}] * 2}}, "Duplicate value"),
    (CAPACITIES, {"storageClassName": ""}, "storageClassName: Invalid value"),
    (ATTACHMENTS, {"spec": ATTACHED | {"source": {}}}, "exactly one of inlineVolumeSpec and persistentVolumeName"),
]
CHANGES: list[Any] = [
    (DRIVERS, {"spec": {}}, {"spec": {"attachRequired": False}}),
    (CAPACITIES, {"storageClassName": "a"}, {"storageClassName": "b"}),
    (ATTACHMENTS, {"spec": ATTACHED}, {"spec": {"nodeName": "m"}}),
    (
        NODES,
        {"spec": {"drivers": [{"name": "a", "nodeID": "i"}]}},
        {"spec": {"drivers": [{"name": "a", "nodeID": "j"}]}},
    ),
]


def test_defaults_and_columns(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            made = await client.make(DRIVERS, named("a.example", spec={}))
            assert made["spec"] == {
                "attachRequired": True,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "podInfoOnMount": False,
                "requiresRepublish": False,
                "seLinuxMount": False,
                "storageCapacity": False,
                "volumeLifecycleModes": ["Persistent"],
            }
            shown = ["a.example", True, False, False, "<unset>", False, "Persistent"]
            assert (await row(client, DRIVERS))[:7] == shown
            driver = {"name": "a.example", "nodeID": "i-1", "allocatable": {"count": 0}}
            node = await client.make(NODES, named("n", spec={"drivers": [driver]}))
            assert node["spec"]["drivers"] == [driver | {"topologyKeys": None}]
            assert (await row(client, NODES))[:2] == ["n", 1]
            room = await client.make(CAPACITIES, named("c", storageClassName="fast", capacity="1024Mi"))
            assert await row(client, CAPACITIES) == ["c", room["metadata"]["creationTimestamp"]]
            made = await client.make(ATTACHMENTS, named("v", spec=ATTACHED, status={"attached": True}))
            assert made["status"] == {"attached": False}
            done = await client.ask("PATCH", f"{ATTACHMENTS}/v/status", {"status": {"attached": True}}, MERGE)
            assert (done.code, (await row(client, ATTACHMENTS))[:5]) == (200, ["v", "a.example", "v", "n", True])

    asyncio.run(scene())


@pytest.mark.parametrize(("path", "obj", "why"), REFUSED)
def test_bad_objects_are_refused(tmp_path: Path, path: str, obj: Any, why: str) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            assert why in await refused(client, path, obj)

    asyncio.run(scene())


@pytest.mark.parametrize(("path", "obj", "change"), CHANGES)
def test_immutable_fields_are_kept(tmp_path: Path, path: str, obj: Any, change: Any) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            assert await is_immutable(client, path, obj, change)

    asyncio.run(scene())


@pytest.mark.parametrize(("path", "obj"), [(DRIVERS, {"spec": {}}), (ATTACHMENTS, {"spec": ATTACHED})])
def test_a_warning_states_that_nothing_acts_on_it(tmp_path: Path, path: str, obj: Any) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            assert (await warning(client, path, obj)).startswith("no component of this cluster ")

    asyncio.run(scene())
