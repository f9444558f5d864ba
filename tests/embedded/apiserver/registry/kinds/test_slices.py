"""ResourceSlices: stored, checked, selected by field and shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.apiserver.registry.kinds.tables import is_immutable, named, refused, row

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SLICE = {"driver": "a.example", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}}
REFUSED: list[Any] = [
    (SLICES, {"spec": SLICE | {"allNodes": True}}, "but multiple fields are set"),
    (SLICES, {"spec": SLICE | {"pool": {"name": "p", "resourceSliceCount": 0}}}, "must be greater than zero"),
    (SLICES, {"spec": SLICE | {"devices": [{"name": "d"}] * 2}}, "spec.devices[1]: Duplicate value"),
    (SLICES, {"spec": SLICE | {"devices": [{"name": "d", "attributes": {"a": {}}}]}}, "exactly one value"),
]
CHANGES: list[Any] = [(SLICES, {"spec": SLICE}, {"spec": {"driver": "b.example"}})]


def test_columns_and_fields_to_select_by(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            await client.make(SLICES, named("s", spec=SLICE))
            assert (await row(client, SLICES))[:4] == ["s", "n", "a.example", "p"]
            for node, found in (("n", 1), ("other", 0)):
                listed = (await client.ask("GET", f"{SLICES}?fieldSelector=spec.nodeName={node}")).body
                assert len(listed["items"]) == found

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
