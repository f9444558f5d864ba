"""AppWrappers on `phalanx up`: created when all of their pods have a place, with the rights of who created them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import JOBS, PODS, SECRETS, Kind
from phalanx.dialects.appwrapper.kinds import APP_WRAPPERS
from phalanx.dialects.frame import Object
from tests.cli.upstart import started

pytestmark = pytest.mark.slow

_RBAC = "rbac.authorization.k8s.io"
ROLES = Kind(group=_RBAC, plural="roles", name="Role")
ROLE_BINDINGS = Kind(group=_RBAC, plural="rolebindings", name="RoleBinding")
SPACE = "default"


def job(name: str, pods: int, cpu: int) -> Object:
    resources = {"requests": {"cpu": cpu}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": resources}]}
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def wrap(name: str, *wrapped: Object, **notes: str) -> Object:
    said = {f"workload.codeflare.dev.appwrapper/{key}": text for key, text in notes.items()}
    return {
        "apiVersion": APP_WRAPPERS.api_version,
        "kind": APP_WRAPPERS.name,
        "metadata": {"name": name, "annotations": said},
        "spec": {"components": [{"template": one} for one in wrapped]},
    }


class User:
    """Who may create AppWrappers and Jobs, and look at pods, and nothing else, as which a test acts."""

    def __init__(self, api: Connection) -> None:
        self.api = api

    async def grant(self) -> None:
        rules = [
            {"apiGroups": ["workload.codeflare.dev"], "resources": ["appwrappers"], "verbs": ["*"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},
        ]
        meta = {"name": "wrapping"}
        await self.api.create(ROLES, {"metadata": meta, "rules": rules}, SPACE)
        role = {"apiGroup": _RBAC, "kind": "Role", "name": "wrapping"}
        subjects = [{"apiGroup": _RBAC, "kind": "User", "name": "sue"}]
        await self.api.create(ROLE_BINDINGS, {"metadata": meta, "roleRef": role, "subjects": subjects}, SPACE)

    async def create(self, body: Object) -> Object:
        return await self.api.create(APP_WRAPPERS, body, SPACE, acting=("sue", "team"))


async def phase(api: Connection, name: str) -> str:
    return str((await api.get(APP_WRAPPERS, name, SPACE)).get("status", {}).get("phase"))


async def unhealthy(api: Connection, name: str) -> str:
    conditions = (await api.get(APP_WRAPPERS, name, SPACE))["status"]["conditions"]
    return next(f"{one['reason']}: {one['message']}" for one in conditions if one["type"] == "Unhealthy")


async def until(reached: Callable[[], Any], timeout_s: float = 40.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await reached():  # noqa: ASYNC110 (what it waits for is the server)
            await asyncio.sleep(0.1)


async def names(api: Connection, kind: Kind) -> set[str]:
    return {one["metadata"]["name"] for one in (await api.list(kind, SPACE))["items"]}


async def nobody_gets_more_by_wrapping(api: Connection) -> None:
    user = User(api)
    await user.grant()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}}
    await user.create(wrap("greedy", job("modest", 1, 1), secret))
    await until(lambda: is_in(api, "greedy", "Failed"))
    assert "secrets is forbidden" in await unhealthy(api, "greedy")
    assert "mine" not in await names(api, SECRETS)
    forged = wrap("forged", job("f", 1, 1), secret)
    forged["metadata"]["annotations"] |= {"phalanx.dev/user": "admin", "phalanx.dev/user-groups": "system:masters"}
    made = (await user.create(forged))["metadata"]["annotations"]
    assert (made["phalanx.dev/user"], made["phalanx.dev/user-groups"]) == ("sue", "team,system:authenticated")
    patch = {"metadata": {"annotations": {"phalanx.dev/user": "admin"}}}
    with pytest.raises(ApiRefusal, match="say who created it"):
        await api.patch(APP_WRAPPERS, "forged", patch, SPACE)
    await until(lambda: is_in(api, "forged", "Failed"))
    with pytest.raises(ApiRefusal, match="is not wrapped"):
        await user.create(wrap("nested", wrap("inner", job("x", 1, 1))))


async def is_in(api: Connection, name: str, wanted: str) -> bool:
    return await phase(api, name) == wanted


async def all_are_created_when_all_fit(api: Connection) -> None:
    await api.create(APP_WRAPPERS, wrap("first", job("big", 1, 6)), SPACE)
    await until(lambda: is_in(api, "first", "Running"))
    await api.create(APP_WRAPPERS, wrap("second", job("left", 2, 2), job("right", 1, 2)), SPACE)
    await until(lambda: is_in(api, "second", "Suspended"))
    assert not {"left", "right"} & await names(api, JOBS)
    await api.delete(APP_WRAPPERS, "first", SPACE)
    await until(lambda: is_in(api, "second", "Running"))
    assert {"left", "right"} <= await names(api, JOBS)
    status = (await api.get(APP_WRAPPERS, "second", SPACE))["status"]
    assert [one["conditions"][0]["reason"] for one in status["componentStatus"]] == ["ComponentCreatedSuccessfully"] * 2
    await api.patch(APP_WRAPPERS, "second", {"spec": {"suspend": True}}, SPACE)
    await until(lambda: is_in(api, "second", "Suspended"))
    assert not {"left", "right"} & await names(api, JOBS)
    await api.delete(APP_WRAPPERS, "second", SPACE)


async def what_fails_is_made_again_and_then_removed(api: Connection) -> None:
    times = {"failureGracePeriodDuration": "0s", "retryPausePeriodDuration": "0s", "retryLimit": "1"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "fails"},
        "spec": job("", 1, 1)["spec"]["template"]["spec"],
    }
    await api.create(APP_WRAPPERS, wrap("again", pod, **times), SPACE)
    for wanted in (1, 1):
        await until(lambda: runs(api, "fails"))
        uid = (await api.get(PODS, "fails", SPACE))["metadata"]["uid"]
        await api.patch(PODS, "fails", {"status": {"phase": "Failed"}}, SPACE, "status")
        await until(lambda: is_gone(api, "fails", uid))  # noqa: B023
        assert (await api.get(APP_WRAPPERS, "again", SPACE))["status"]["resettingCount"] == wanted
    await until(lambda: is_in(api, "again", "Failed"))
    assert "fails" not in await names(api, PODS)


async def runs(api: Connection, name: str) -> bool:
    found = [one for one in (await api.list(PODS, SPACE))["items"] if one["metadata"]["name"] == name]
    return any((one.get("status") or {}).get("phase") == "Running" for one in found)


async def is_gone(api: Connection, name: str, uid: str) -> bool:
    found = [one for one in (await api.list(PODS, SPACE))["items"] if one["metadata"]["name"] == name]
    return all(one["metadata"]["uid"] != uid for one in found)


def test_app_wrappers_run_on_phalanx_up(tmp_path: Path) -> None:
    async def scene(data: Path) -> None:
        async with await Connection.open(data / "kubeconfig") as api:
            await all_are_created_when_all_fit(api)
            await nobody_gets_more_by_wrapping(api)
            await what_fails_is_made_again_and_then_removed(api)
            assert await names(api, APP_WRAPPERS) == {"greedy", "forged", "again"}

    with started(tmp_path, "--no-local-node", "--simulate-nodes", "1", "--node-cpu", "8"):
        asyncio.run(scene(tmp_path))
