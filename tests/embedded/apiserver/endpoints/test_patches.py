"""Patches of objects whose parts are shared with those who read them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apimachinery.patch.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
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


@pytest.mark.parametrize("media", [MERGE_PATCH, STRATEGIC_MERGE_PATCH])
def test_text_of_a_secret_is_written_into_its_data(tmp_path: Path, media: str) -> None:
    secrets = "/api/v1/namespaces/default/secrets"

    async def play() -> None:
        async with InProcess.started(tmp_path / "data") as at:
            await at.make(secrets, {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}})
            changed = await at.ask("PATCH", f"{secrets}/s", {"stringData": {"a": "c"}}, media)
            assert changed.body["data"] == {"a": "Yw==", "c": "ZA=="}
            assert (await at.ask("PATCH", f"{secrets}/s?dryRun=All", {"stringData": {"a": "d"}}, media)).code == 200
            assert (await at.ask("GET", f"{secrets}/s")).body == changed.body

    asyncio.run(play())


def test_a_port_that_a_service_gets_leaves_its_other_ports(tmp_path: Path) -> None:
    services = "/api/v1/namespaces/default/services"

    async def play() -> None:
        async with InProcess.started(tmp_path / "data") as at:
            spec = {"type": "NodePort", "ports": [{"name": "a", "port": 80}]}
            made = await at.make(services, {"metadata": {"name": "s"}, "spec": spec})
            more = {"spec": {"ports": [{"name": "b", "port": 81}]}}
            changed = await at.ask("PATCH", f"{services}/s", more, STRATEGIC_MERGE_PATCH)
            assert changed.code == 200, changed.body
            ports = {one["name"]: one["nodePort"] for one in changed.body["spec"]["ports"]}
            assert ports["a"] == made["spec"]["ports"][0]["nodePort"] != ports["b"]

    asyncio.run(play())
