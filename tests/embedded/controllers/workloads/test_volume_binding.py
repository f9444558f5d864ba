"""Claims get volumes: existing ones, or new directories that are deleted with the claim."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import EVENTS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from phalanx.embedded.controllers.workloads.volume_binding import PROVISIONER, SELECTED_NODE, best_match, refusal
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import FAST, Cluster, scenario


def claim(**spec: Any) -> Object:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"metadata": {"name": "c", "namespace": "n", "uid": "u"}, "spec": asked}


def volume(name: str, size: str = "1Gi", labels: Any = None, **spec: Any) -> Object:
    said = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": said}


@pytest.mark.parametrize(
    ("wanted", "volumes", "taken"),
    [
        ({}, [volume("large", "9Gi"), volume("small", "2Gi"), volume("tiny", "1Mi")], "small"),
        ({}, [volume("a", storageClassName="fast")], None),
        ({"storageClassName": "fast"}, [volume("a"), volume("b", storageClassName="fast")], "b"),
        ({"accessModes": ["ReadWriteMany"]}, [volume("a")], None),
        ({"selector": {"matchLabels": {"disk": "ssd"}}}, [volume("a"), volume("b", labels={"disk": "ssd"})], "b"),
        ({}, [volume("a", claimRef={"name": "other", "namespace": "n"})], None),
        ({}, [volume("a"), volume("b", "5Gi", claimRef={"name": "c", "namespace": "n"})], "b"),  # kept for it
        ({}, [volume("b", claimRef={"name": "c", "namespace": "n", "uid": "before"})], None),
        ({"volumeMode": "Block"}, [volume("a")], None),
    ],
)
def test_the_smallest_volume_that_suits_is_taken(wanted: Object, volumes: list[Object], taken: str | None) -> None:
    found = best_match(claim(**wanted), volumes)
    assert (found["metadata"]["name"] if found else None) == taken


def test_what_no_directory_can_be_is_refused() -> None:
    assert "block" in refusal(claim(volumeMode="Block"))
    assert "dataSource" in refusal(claim(dataSource={"kind": "PersistentVolumeClaim", "name": "x"}))
    assert refusal(claim()) == ""


async def bound(here: Cluster, name: str) -> Object:
    found: Object = await here.until(
        lambda: here.get(VOLUME_CLAIMS, name), lambda one: one and one["status"].get("phase") == "Bound"
    )
    return found


@pytest.mark.slow
def test_a_directory_is_made_where_the_pod_goes_and_removed_with_its_claim(
    api_server: ServerProcess, tmp_path: Path
) -> None:
    async def play(here: Cluster) -> None:
        made = await here.make(VOLUME_CLAIMS, "data", spec=claim()["spec"])
        assert "storageClassName" not in made["spec"]

        async def said() -> list[str]:
            return [one["reason"] for one in await here.list(EVENTS)]

        await here.until(said, lambda reasons: "WaitForFirstConsumer" in reasons)
        assert os.listdir(tmp_path) == []
        await here.set(VOLUME_CLAIMS, "data", metadata={"annotations": {SELECTED_NODE: "n1"}})  # as the scheduler does
        data = await bound(here, "data")
        name = data["spec"]["volumeName"]
        assert data["spec"]["storageClassName"] == "local"
        assert data["status"]["capacity"] == {"storage": "1Gi"}
        mine = await here.until(lambda: here.get(VOLUMES, name), lambda one: one["status"]["phase"] == "Bound")
        assert mine["spec"]["hostPath"]["path"] == str(tmp_path / name)
        [term] = mine["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["n1"]
        (tmp_path / name / "file").write_text("x")
        await here.connection.delete(VOLUME_CLAIMS, "data", here.namespace)
        await here.gone(VOLUME_CLAIMS, "data")
        await here.gone(VOLUMES, name)
        assert os.listdir(tmp_path) == []

    scenario(api_server, play, replace(FAST, volumes_dir=tmp_path))


@pytest.mark.slow
def test_volumes_of_an_admin_are_bound_and_kept(api_server: ServerProcess, tmp_path: Path) -> None:
    async def play(here: Cluster) -> None:
        own = f"disk-{here.namespace}"
        fields = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": own}
        await here.make(VOLUMES, own, spec={**fields, "hostPath": {"path": str(tmp_path)}})
        await here.until(lambda: here.get(VOLUMES, own), lambda one: one["status"]["phase"] == "Available")
        await here.make(VOLUME_CLAIMS, "first", spec=claim(storageClassName=own)["spec"])
        assert (await bound(here, "first"))["spec"]["volumeName"] == own
        await here.make(VOLUME_CLAIMS, "second", spec=claim(volumeName=own, storageClassName=own)["spec"])
        await here.connection.delete(VOLUME_CLAIMS, "first", here.namespace)
        await here.until(lambda: here.get(VOLUMES, own), lambda one: one["status"]["phase"] == "Released")
        (tmp_path / "kept").write_text("x")
        await asyncio.sleep(0)
        second = await here.get(VOLUME_CLAIMS, "second")
        assert second is not None
        assert second["status"]["phase"] == "Pending"  # a volume with another claim's data is not bound again
        await here.connection.delete(VOLUMES, own)
        await here.gone(VOLUMES, own)
        assert (tmp_path / "kept").exists()

    scenario(api_server, play)


@pytest.mark.slow
def test_a_volume_of_a_claim_without_a_name_is_released(api_server: ServerProcess, tmp_path: Path) -> None:
    async def play(here: Cluster) -> None:
        own = f"odd-{here.namespace}"
        spec = volume(own, hostPath={"path": str(tmp_path)}, claimRef={"uid": "u"})["spec"]
        await here.make(VOLUMES, own, spec={**spec, "persistentVolumeReclaimPolicy": "Retain"})
        released = await here.until(lambda: here.get(VOLUMES, own), lambda one: one["status"]["phase"] == "Released")
        assert released["spec"]["claimRef"] == {"uid": "u"}  # the volume still belongs to that claim
        await here.connection.delete(VOLUMES, own)

    scenario(api_server, play)


@pytest.mark.slow
def test_a_class_that_binds_at_once(api_server: ServerProcess, tmp_path: Path) -> None:
    async def play(here: Cluster) -> None:
        own = f"now-{here.namespace}"
        await here.make(STORAGE_CLASSES, own, provisioner=PROVISIONER, reclaimPolicy="Retain")
        await here.make(VOLUME_CLAIMS, "c", spec=claim(storageClassName=own)["spec"])
        name = (await bound(here, "c"))["spec"]["volumeName"]
        await here.connection.delete(VOLUME_CLAIMS, "c", here.namespace)
        await here.until(lambda: here.get(VOLUMES, name), lambda one: one["status"]["phase"] == "Released")
        assert (tmp_path / name).is_dir()  # Retain
        await here.connection.delete(VOLUMES, name)

    scenario(api_server, play, replace(FAST, volumes_dir=tmp_path))
