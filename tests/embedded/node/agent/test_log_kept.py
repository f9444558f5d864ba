"""The log of a deleted pod: kept by its node, read through the API server, and deleted later."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import PODS
from phalanx.embedded.node.container.log.kept import FOLDER, KeptLogs, KeptPod
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until

LINE = "2026-01-01T00:00:00.000000000Z stdout F {}\n"


async def kept(api: Client) -> list[dict[str, Any]]:
    answer = await api.connection.request("GET", PODS.path(api.namespace, "-", "log"))
    items: list[dict[str, Any]] = answer["items"]
    return items


@pytest.mark.slow
def test_the_log_of_a_pod_that_is_gone_is_read_by_its_uid(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "no-such-job", "controller": True}
        labels = {"batch.kubernetes.io/job-name": "train"}
        meta = {"labels": labels, "ownerReferences": [owner], "finalizers": []}
        first = await api.run(container("main", "sh", "-c", "echo one; echo two"), meta=meta)
        await api.phase("Succeeded")
        await api.delete()
        await api.until(lambda pod: pod is None)
        [pod] = await until(lambda: kept(api))
        assert (pod["pod"], pod["uid"], pod["owner"]) == ("p", first["metadata"]["uid"], "Job/train")
        assert pod["labels"].items() >= labels.items()
        assert pod["containers"] == ["main"]
        second = await api.run(container("main", "sh", "-c", "echo three"))
        await api.phase("Succeeded")
        assert await api.logs(uid=first["metadata"]["uid"]) == "one\ntwo"
        assert await api.logs(uid=first["metadata"]["uid"], tailLines="1") == "two"
        assert await api.logs(uid=second["metadata"]["uid"]) == "three"
        with pytest.raises(ApiRefusal, match="not found"):
            await api.logs(uid="00000000-0000-0000-0000-000000000000")
        with pytest.raises(ApiRefusal, match="not found"):
            await api.logs(uid="../../pods")

    scenario(api_server, test)


@pytest.mark.slow
def test_a_new_namespace_of_the_same_name_shows_nothing_of_the_old_one(api_server: ServerProcess) -> None:
    """The name of a namespace may be given again, to another user."""

    async def test(api: Client) -> None:
        old = KeptPod(namespace=api.namespace, pod="p", uid="old", started_s=1.0, ended_s=2.0)
        logs = KeptLogs(api_server.data, 1 << 20, 1e12)
        folder = api_server.data / "aside"
        write(folder, "secret")
        logs.keep(old, folder)
        assert [pod.uid for pod in logs.of(api.namespace)] == ["old"]
        assert await kept(api) == []
        with pytest.raises(ApiRefusal, match="not found"):
            await api.logs(uid="old")

    scenario(api_server, test)


def test_a_user_who_may_not_read_logs_reads_no_kept_ones(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        acting = ["system:serviceaccount:other:default", "system:authenticated"]
        with pytest.raises(ApiRefusal, match="cannot get resource"):
            await api.connection.request("GET", PODS.path(api.namespace, "-", "log"), acting=acting)
        with pytest.raises(ApiRefusal):
            await api.connection.request("GET", PODS.path("no-such-namespace", "-", "log"))

    scenario(api_server, test)


def write(folder: Path, text: str, name: str = "0.log") -> None:
    (folder / "main").mkdir(parents=True, exist_ok=True)
    (folder / "main" / name).write_text(LINE.format(text))


def keep(logs: KeptLogs, tmp_path: Path, uid: str, ended_s: float, text: str = "x") -> None:
    folder = tmp_path / "pods" / uid
    write(folder, text)
    logs.keep(KeptPod(namespace="team", pod=uid, uid=uid, ended_s=ended_s), folder)


def test_the_oldest_go_first_beyond_the_quota_and_all_when_the_disk_is_low(tmp_path: Path) -> None:
    long = "x" * 4000
    logs = KeptLogs(tmp_path, most_bytes=10_000, most_s=100.0)
    for number in range(4):
        keep(logs, tmp_path, f"pod-{number}", ended_s=float(number), text=long)
    logs.prune(5.0)
    assert {pod.uid for pod in logs.of("team")} == {"pod-2", "pod-3"}
    logs.prune(102.5)
    assert [pod.uid for pod in logs.of("team")] == ["pod-3"]
    logs.prune(102.5, low=True)
    assert logs.of("team") == []
    assert not list((tmp_path / FOLDER / "team").iterdir())


def test_without_a_quota_nothing_is_kept(tmp_path: Path) -> None:
    logs = KeptLogs(tmp_path, most_bytes=0, most_s=100.0)
    keep(logs, tmp_path, "pod", 1.0)
    assert logs.of("team") == []


def test_each_attempt_is_kept_and_a_link_is_not_followed(tmp_path: Path) -> None:
    logs = KeptLogs(tmp_path, most_bytes=1 << 20, most_s=100.0)
    folder = tmp_path / "pods" / "pod"
    for number in (8, 9, 10):
        write(folder, str(number), f"{number}.log")
    (tmp_path / "secret").write_text("secret")
    os.symlink(tmp_path / "secret", folder / "main" / "11.log")
    logs.keep(KeptPod(namespace="team", pod="pod", uid="pod"), folder)
    last, before = logs.log("team", "pod", "main"), logs.log("team", "pod", "main", previous=True)
    assert last is not None
    assert before is not None
    assert (last.name, before.name) == ("10.log", "9.log")
    assert logs.log("team", "..", "main") is None
    assert logs.log("..", "pod", "main") is None


def test_what_the_node_was_killed_in_the_middle_of_is_deleted(tmp_path: Path) -> None:
    logs = KeptLogs(tmp_path, most_bytes=1 << 20, most_s=100.0)
    write(tmp_path / FOLDER / "team" / "half", "x")
    assert logs.of("team") == []
    logs.prune(1.0)
    assert not (tmp_path / FOLDER / "team" / "half").exists()
