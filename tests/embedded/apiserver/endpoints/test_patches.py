"""Patches of objects whose parts are shared with those who read them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apiserver.apimachinery.patch.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.embedded.apiserver.inprocess import InProcess

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/managedFields/0/fieldsV1/f:data"}]),
        (MERGE_PATCH, {"metadata": {"managedFields": [{}]}}),
        (STRATEGIC_MERGE_PATCH, {"metadata": {"managedFields": None}}),
    ],
)
def test_a_rehearsed_patch_of_the_record_leaves_what_is_stored(tmp_path: Path, media: str, patch: Any) -> None:
    async def play() -> None:
        async with InProcess.started(tmp_path / "data") as at:
            made = await at.make(MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}})
            assert (await at.ask("PATCH", f"{MAPS}/c?dryRun=All", patch, media)).code == 200
            assert (await at.ask("PATCH", f"{MAPS}/c?dryRun=All", {"data": {"a": "c"}}, MERGE_PATCH)).code == 200
            assert (await at.ask("GET", f"{MAPS}/c")).body == made

    asyncio.run(play())
