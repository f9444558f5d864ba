"""Volumes as files of this machine."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.kind import CONFIG_MAPS, VOLUME_CLAIMS, VOLUMES, Kind
from phalanx.embedded.node.container.attempt import Mount
from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.environment import EnvironmentFault
from tests.embedded.node.objects import container, pod


async def look_up(kind: Kind, namespace: str, name: str) -> Any:
    if name != "there":
        return None
    if kind is CONFIG_MAPS:
        return {"data": {"a.txt": "A", "b.txt": "B"}, "binaryData": {"c": base64.b64encode(b"\xff").decode()}}
    return {"data": {"key": base64.b64encode(b"s3cret").decode()}}


async def token(namespace: str, account: str, source: Any) -> str:
    return f"token of {namespace}/{account}"


def set_up(root: Path, **volume: Any) -> Path:
    owner = pod(volumes=[{"name": "v", **volume}], meta={"labels": {"app": "x"}})
    asyncio.run(volumes.set_up(owner, root, {"cpu": "6"}, look_up, token))
    return root / "v"


def files(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_configmap_is_a_directory_of_its_keys(tmp_path: Path) -> None:
    place = set_up(tmp_path / "r", configMap={"name": "there"})
    assert files(place) == {"a.txt": b"A", "b.txt": b"B", "c": b"\xff"}
    assert mode(place / "a.txt") == 0o644


def test_items_choose_keys_and_paths(tmp_path: Path) -> None:
    items = [{"key": "a.txt", "path": "deep/x", "mode": 0o400}]
    place = set_up(tmp_path / "r", configMap={"name": "there", "items": items})
    assert files(place) == {"deep/x": b"A"}
    assert mode(place / "deep/x") == 0o400


def test_a_secret_is_private_below_a_private_directory(tmp_path: Path) -> None:
    place = set_up(tmp_path / "r", secret={"secretName": "there"})
    assert files(place) == {"key": b"s3cret"}
    assert (mode(place / "key"), mode(tmp_path / "r")) == (0o600, 0o700)


def test_the_downward_api_as_files(tmp_path: Path) -> None:
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    assert files(set_up(tmp_path / "r", downwardAPI={"items": items})) == {"labels": b'app="x"'}


def test_projected_volumes_gather_sources(tmp_path: Path) -> None:
    sources = [{"configMap": {"name": "there"}}, {"serviceAccountToken": {"path": "token"}}]
    found = files(set_up(tmp_path / "r", projected={"sources": sources}))
    assert found["a.txt"] == b"A"
    assert found["token"] == b"token of default/default"


def test_a_volume_in_memory_is_taken_away_again(tmp_path: Path) -> None:
    place = set_up(tmp_path / "r", emptyDir={"medium": "Memory"})
    real = place.resolve()
    (place / "file").write_text("x")
    volumes.remove(tmp_path / "r")
    assert not real.exists()
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "gone"}}, 'MountVolume.SetUp failed for volume "v" : configmap "gone" not found'),
        (
            {"configMap": {"name": "there", "items": [{"key": "x", "path": "x"}]}},
            "references non-existent configmap key: x",
        ),
        ({"hostPath": {"path": "/no/such/place", "type": "Directory"}}, "hostPath type check failed"),
        ({"nfs": {"server": "s", "path": "/"}}, "nfs volumes are not supported on this node"),
    ],
)
def test_what_cannot_be_set_up_is_said(tmp_path: Path, volume: Any, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=message):
        set_up(tmp_path / "r", **volume)


def test_mounts_outer_paths_first_and_configuration_read_only(tmp_path: Path) -> None:
    box = container(
        volumeMounts=[{"name": "c", "mountPath": "/data/etc"}, {"name": "h", "mountPath": "/data", "subPath": "sub"}]
    )
    owner = pod(
        box, volumes=[{"name": "c", "configMap": {"name": "there"}}, {"name": "h", "hostPath": {"path": str(tmp_path)}}]
    )
    assert volumes.mounts(box, owner, tmp_path / "r", {}) == (
        Mount(source=f"{tmp_path}", target="/data", below="sub", by_user=True),
        Mount(source=f"{tmp_path}/r/c", target="/data/etc", read_only=True),
    )


def test_a_sub_path_stays_inside(tmp_path: Path) -> None:
    box = container(volumeMounts=[{"name": "e", "mountPath": "/x", "subPath": "../../etc"}])
    with pytest.raises(EnvironmentFault, match="relative path without"):
        volumes.mounts(box, pod(box, volumes=[{"name": "e", "emptyDir": {}}]), tmp_path, {})


def claims(path: Path, phase: str = "Bound", uid: str = "u") -> Any:
    async def look_up(kind: Kind, namespace: str, name: str) -> Any:
        if kind is VOLUME_CLAIMS and name == "c":
            return {"metadata": {"uid": "u"}, "spec": {"volumeName": "pv"}, "status": {"phase": phase}}
        return {"spec": {"hostPath": {"path": str(path)}, "claimRef": {"uid": uid}}} if kind is VOLUMES else None

    return look_up


def test_a_claim_is_the_directory_of_its_volume_and_stays(tmp_path: Path) -> None:
    kept = tmp_path / "volumes" / "pvc-1"
    kept.mkdir(parents=True)
    root = tmp_path / "pods" / "uid" / "volumes"
    mount = {"name": "v", "mountPath": "/data"}
    owner = pod(container(volumeMounts=[mount]), volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    asyncio.run(volumes.set_up(owner, root, {}, claims(kept), token))
    [found] = volumes.mounts(owner["spec"]["containers"][0], owner, root, {})
    (Path(found.source) / "file").write_text("x")
    assert (kept / "file").read_text() == "x"
    assert not found.read_only
    volumes.remove(root)
    assert not root.exists()
    assert (kept / "file").exists()


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [("other", {}, "not found"), ("c", {"phase": "Pending"}, "not bound yet"), ("c", {"uid": "w"}, "another claim's")],
)
def test_a_claim_without_its_volume_is_waited_for(tmp_path: Path, name: str, fields: Any, why: str) -> None:
    owner = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])
    with pytest.raises(EnvironmentFault, match=why):
        asyncio.run(volumes.set_up(owner, tmp_path / "r", {}, claims(tmp_path, **fields), token))


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_claims_volume_is_given_without_what_is_in_it(tmp_path: Path) -> None:
    kept, root = tmp_path / "volumes" / "pvc-1", tmp_path / "pods" / "uid" / "volumes"
    kept.mkdir(parents=True)
    (kept / "file").touch()
    owner = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    asyncio.run(volumes.set_up(owner, root, {}, claims(kept), token))
    volumes.give(root, 65534, 65534)
    assert (kept.stat().st_uid, (kept / "file").stat().st_uid) == (65534, 0)
    elsewhere = tmp_path / "admin"
    elsewhere.mkdir()
    asyncio.run(volumes.set_up(owner, tmp_path / "pods" / "two" / "volumes", {}, claims(elsewhere), token))
    volumes.give(tmp_path / "pods" / "two" / "volumes", 65534, 65534)
    assert elsewhere.stat().st_uid == 0


def test_a_volume_in_memory_is_nothing_that_somebody_else_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may write to /dev/shm, and the uid of a pod is known long before it starts."""
    memory, machine = tmp_path / "shm", tmp_path / "etc"
    for folder in (memory, machine):
        folder.mkdir(mode=0o755)
    monkeypatch.setattr(volumes, "_MEMORY", memory)
    place = set_up(tmp_path / "r", emptyDir={"medium": "Memory"})
    [root] = memory.iterdir()
    assert mode(root) == 0o700  # so that no other user can read or write below it
    assert place.resolve().parent == root
    volumes.remove(tmp_path / "r")
    assert list(memory.iterdir()) == []
    root.symlink_to(machine)
    with pytest.raises(EnvironmentFault, match="was created by another user"):
        set_up(tmp_path / "s", emptyDir={"medium": "Memory"})
    assert (mode(machine), list(machine.iterdir())) == (0o755, [])
    root.unlink()
    root.mkdir(mode=0o777)
    if os.geteuid() == 0:
        os.chown(root, 51234, 51234)
        with pytest.raises(EnvironmentFault, match="was created by another user"):
            set_up(tmp_path / "s", emptyDir={"medium": "Memory"})


def test_what_a_pod_left_in_its_volume_changes_no_file_of_the_machine(tmp_path: Path) -> None:
    victim, root = tmp_path / "victim", tmp_path / "r"
    victim.touch(mode=0o644)
    work = root / "v" / "work"
    work.mkdir(parents=True)
    (work / "work").symlink_to(victim)  # as overlayfs names its own
    volumes.remove(root)
    assert not root.exists()
    assert mode(victim) == 0o644
