"""Classes, claims and templates of dynamic resource allocation: stored, checked and shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.apiserver.registry.kinds.tables import MERGE, is_immutable, named, refused, row, warning

RESOURCE, SPACE = "/apis/resource.k8s.io/v1", "/namespaces/default"
CLASSES = f"{RESOURCE}/deviceclasses"
CLAIMS, TEMPLATES = f"{RESOURCE}{SPACE}/resourceclaims", f"{RESOURCE}{SPACE}/resourceclaimtemplates"
ONE_GPU = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}
REFUSED: list[Any] = [
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
]
CHANGES: list[Any] = [
    (CLAIMS, {"spec": ONE_GPU}, {"spec": {"devices": {"requests": []}}}),
    (TEMPLATES, {"spec": {"spec": ONE_GPU}}, {"spec": {"spec": {"devices": {"requests": []}}}}),
]


def test_defaults_and_columns(tmp_path: Path) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(("path", "obj"), [(CLAIMS, {"spec": ONE_GPU}), (TEMPLATES, {"spec": {"spec": ONE_GPU}})])
def test_a_warning_states_that_nothing_acts_on_it(tmp_path: Path, path: str, obj: Any) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            assert (await warning(client, path, obj)).startswith("no component of this cluster ")

    asyncio.run(scene())
