"""What drivers of volumes and devices publish (CSI, dynamic resource allocation): stored, checked and shown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import InProcess

STORAGE, RESOURCE, SPACE = "/apis/storage.k8s.io/v1", "/apis/resource.k8s.io/v1", "/namespaces/default"
DRIVERS, NODES, ATTACHMENTS = f"{STORAGE}/csidrivers", f"{STORAGE}/csinodes", f"{STORAGE}/volumeattachments"
CAPACITIES = f"{STORAGE}{SPACE}/csistoragecapacities"
CLASSES, SLICES = f"{RESOURCE}/deviceclasses", f"{RESOURCE}/resourceslices"
CLAIMS, TEMPLATES = f"{RESOURCE}{SPACE}/resourceclaims", f"{RESOURCE}{SPACE}/resourceclaimtemplates"
TABLE = b"application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"
ONE_GPU = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}
ATTACHED = {"attacher": "a.example", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
SLICE = {"driver": "a.example", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}}


async def row(client: InProcess, path: str) -> list[Any]:
    raw = client.request("GET", path)
    raw.headers[b"accept"] = TABLE
    return list(json.loads((await client.api(raw)).body)["rows"][0]["cells"])


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def test_defaults_and_columns_of_csi_kinds(tmp_path: Path) -> None:
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
            await client.make(CAPACITIES, named("c", storageClassName="fast", capacity="1024Mi"))
            assert await row(client, CAPACITIES) == ["c", "fast", "1Gi"]
            made = await client.make(ATTACHMENTS, named("v", spec=ATTACHED, status={"attached": True}))
            assert made["status"] == {"attached": False}
            done = await client.ask("PATCH", f"{ATTACHMENTS}/v/status", {"status": {"attached": True}}, MERGE)
            assert (done.code, (await row(client, ATTACHMENTS))[:5]) == (200, ["v", "a.example", "v", "n", True])

    asyncio.run(scene())


def test_defaults_and_columns_of_dynamic_resource_allocation(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            await client.make(CLASSES, named("gpus", spec={"selectors": [{"cel": {"expression": "true"}}]}))
            assert (await row(client, CLASSES))[0] == "gpus"
            made = await client.make(CLAIMS, named("one", spec=ONE_GPU))
            assert made["spec"]["devices"]["requests"][0]["exactly"] == {
                "deviceClassName": "gpus",
                "allocationMode": "ExactCount",
                "count": 1,
            }
            assert (await row(client, CLAIMS))[:2] == ["one", "pending"]
            user = {"resource": "pods", "name": "p", "uid": "u"}
            status = {"allocation": {"devices": {}}, "reservedFor": [user]}
            await client.ask("PATCH", f"{CLAIMS}/one/status", {"status": status}, MERGE)
            assert (await row(client, CLAIMS))[:2] == ["one", "allocated,reserved"]
            template = await client.make(TEMPLATES, named("t", spec={"spec": ONE_GPU}))
            assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
            await client.make(SLICES, named("s", spec=SLICE))
            assert (await row(client, SLICES))[:4] == ["s", "n", "a.example", "p"]
            found = (await client.ask("GET", f"{SLICES}?fieldSelector=spec.nodeName=other")).body
            assert found["items"] == []

    asyncio.run(scene())


REFUSED: list[Any] = [
    (DRIVERS, {"spec": {"fsGroupPolicy": "Some"}}, 'spec.fsGroupPolicy: Unsupported value: "Some"'),
    (DRIVERS, {"spec": {"tokenRequests": [{"audience": "", "expirationSeconds": 9}]}}, "less than 10 minutes"),
    (NODES, {"spec": {"drivers": [{"name": "a.b", "nodeID": ""}]}}, "spec.drivers[0].nodeID: Required value"),
    (NODES, {"spec": {"drivers": [{"name": "a", "nodeID": "i"}] * 2}}, "Duplicate value"),
    (CAPACITIES, {"storageClassName": ""}, "storageClassName: Invalid value"),
    (ATTACHMENTS, {"spec": ATTACHED | {"source": {}}}, "exactly one of inlineVolumeSpec and persistentVolumeName"),
    (CLASSES, {"spec": {"selectors": [{}]}}, "spec.selectors[0].cel: Required value"),
    (CLASSES, {"spec": {"extendedResourceName": "cpu"}}, "must be a valid extended resource name"),
    (CLAIMS, {"spec": {"devices": {"requests": [{"name": "a"}]}}}, "one of `exactly` or `firstAvailable`"),
    (
        CLAIMS,
        {"spec": {"devices": ONE_GPU["devices"] | {"constraints": [{"requests": ["cpu"], "matchAttribute": "a/b"}]}}},
        "must be the name of a request in the claim",
    ),
    (
        TEMPLATES,
        {"spec": {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": ""}}]}}}},
        "spec.spec.devices.requests[0].exactly.deviceClassName: Required value",
    ),
    (SLICES, {"spec": SLICE | {"allNodes": True}}, "but multiple fields are set"),
    (SLICES, {"spec": SLICE | {"pool": {"name": "p", "resourceSliceCount": 0}}}, "must be greater than zero"),
]


@pytest.mark.parametrize(("path", "obj", "why"), REFUSED)
def test_bad_objects_are_refused(tmp_path: Path, path: str, obj: Any, why: str) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            answer = await client.ask("POST", path, {"metadata": {"name": "x"}, **obj})
            assert (answer.code, why in answer.body["message"]) == (422, True), answer.body["message"]

    asyncio.run(scene())


CHANGES: list[Any] = [
    (DRIVERS, {"spec": {}}, {"spec": {"attachRequired": False}}),
    (CAPACITIES, {"storageClassName": "a"}, {"storageClassName": "b"}),
    (ATTACHMENTS, {"spec": ATTACHED}, {"spec": {"nodeName": "m"}}),
    (
        NODES,
        {"spec": {"drivers": [{"name": "a", "nodeID": "i"}]}},
        {"spec": {"drivers": [{"name": "a", "nodeID": "j"}]}},
    ),
    (CLAIMS, {"spec": ONE_GPU}, {"spec": {"devices": {"requests": []}}}),
    (SLICES, {"spec": SLICE}, {"spec": {"driver": "b.example"}}),
]


@pytest.mark.parametrize(("path", "obj", "change"), CHANGES)
def test_immutable_fields_are_kept(tmp_path: Path, path: str, obj: Any, change: Any) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            await client.make(path, {"metadata": {"name": "x"}, **obj})
            answer = await client.ask("PATCH", f"{path}/x", change, MERGE)
            assert (answer.code, "field is immutable" in answer.body["message"]) == (422, True)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("path", "obj"),
    [(DRIVERS, {"spec": {}}), (ATTACHMENTS, {"spec": ATTACHED}), (CLAIMS, {"spec": ONE_GPU})],
)
def test_a_warning_states_that_nothing_acts_on_it(tmp_path: Path, path: str, obj: Any) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            answer = await client.ask("POST", path, {"metadata": {"name": "x"}, **obj})
            assert (answer.code, [text[:13] for text in answer.warnings]) == (201, ["no component "])

    asyncio.run(scene())


CONTROLLERS = f"/api/v1{SPACE}/replicationcontrollers"
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
            bad = await client.ask("POST", CONTROLLERS, named("x", spec={"template": POD, "selector": {"app": "b"}}))
            assert (bad.code, "does not match template" in bad.body["message"]) == (422, True)
            none = await client.ask("POST", CONTROLLERS, named("y", spec={"selector": {"app": "b"}}))
            assert (none.code, "spec.template: Required value" in none.body["message"]) == (422, True)

    asyncio.run(scene())
