"""AppWrappers on `phalanx up`: created when all of their pods have a place, with the rights of who created them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import JOBS, PODS, SECRETS, Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper.kinds import (
    APP_WRAPPERS,
    IBM_APP_WRAPPERS,
    IBM_QUOTA_SUBTREES,
    QUOTA_SUBTREES,
)
from tests.cli.upstart import Up

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
    """A user who may create AppWrappers and Jobs, and read pods, and nothing else."""

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


async def until(reached: Callable[[], Any], timeout_s: float = 120.0) -> None:
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
    with pytest.raises(ApiRefusal, match="name the AppWrapper's creator"):
        await api.patch(APP_WRAPPERS, "forged", patch, SPACE)
    await until(lambda: is_in(api, "forged", "Failed"))
    with pytest.raises(ApiRefusal, match="must not wrap another AppWrapper"):
        await user.create(wrap("nested", wrap("inner", job("x", 1, 1))))


async def is_in(api: Connection, name: str, wanted: str) -> bool:
    return await phase(api, name) == wanted


async def all_are_created_when_all_fit(api: Connection) -> None:
    """Each of four nodes has 64 cpu: beside 40 there is no room for 30."""
    await api.create(APP_WRAPPERS, wrap("first", job("big", 4, 40)), SPACE)
    await until(lambda: is_in(api, "first", "Running"))
    await api.create(APP_WRAPPERS, wrap("second", job("left", 2, 30), job("right", 1, 30)), SPACE)
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
        await until(lambda uid=uid: is_gone(api, "fails", uid))
        assert (await api.get(APP_WRAPPERS, "again", SPACE))["status"]["resettingCount"] == wanted
    await until(lambda: is_in(api, "again", "Failed"))
    assert "fails" not in await names(api, PODS)


MCAD = Kind(group=APP_WRAPPERS.group, version="v1beta1", plural=APP_WRAPPERS.plural, name=APP_WRAPPERS.name)


def items(name: str, *wrapped: Object, kind: Kind = MCAD, node: str = "gold") -> Object:
    found = [{"generictemplate": one, "completionstatus": "Complete"} for one in wrapped]
    spec = {"priority": 5, "resources": {"GenericItems": found}}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "labels": {"team": node}},
        "spec": spec,
    }


async def of_the_first_generation_waits_in_its_tree_and_completes(api: Connection) -> None:
    quotas = {"requests": {"cpu": 2}, "hardLimit": True}
    spec = {"children": [{"name": "gold", "quotas": quotas}]}
    tree = {"metadata": {"name": "tree", "labels": {"tree": "team"}}, "spec": spec}
    await api.create(QUOTA_SUBTREES, tree, SPACE)
    await api.create(MCAD, items("old-1", job("o1", 1, 2)), SPACE)
    await until(lambda: states(api, "old-1", "Running", "Running"))
    await api.create(MCAD, items("old-2", job("o2", 1, 1)), SPACE)
    await until(lambda: states(api, "old-2", "Pending", "Backoff"))
    assert "o2" not in await names(api, JOBS), "there is room for it on the node, and none in its quota"
    pod = next(one for one in (await api.list(PODS, SPACE))["items"] if one["metadata"]["name"].startswith("o1-"))
    assert pod["metadata"]["labels"]["appwrapper.mcad.ibm.com"] == "old-1"
    await api.patch(PODS, pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, SPACE, "status")
    await until(lambda: states(api, "old-1", "Completed", "Completed"))
    await until(lambda: states(api, "old-2", "Running", "Running"))
    with pytest.raises(ApiRefusal, match="generictemplates are immutable"):
        await api.patch(MCAD, "old-2", {"spec": {"resources": {"GenericItems": []}}}, SPACE)
    with pytest.raises(ApiRefusal, match="must not wrap another AppWrapper"):
        await api.create(MCAD, items("nested", items("inner", job("x", 1, 1))), SPACE)
    for name in ("old-1", "old-2"):
        await api.delete(MCAD, name, SPACE)


async def of_the_groups_before_waits_in_its_tree_and_runs(api: Connection) -> None:
    spec = {"parent": "gold", "children": [{"name": "inner", "quotas": {"requests": {"cpu": 1}, "hardLimit": True}}]}
    await api.create(
        IBM_QUOTA_SUBTREES, {"metadata": {"name": "tree", "labels": {"tree": "team"}}, "spec": spec}, SPACE
    )
    template = job("", 1, 1)["spec"]["template"]
    served = {"metadata": {"labels": {"app": "t2"}}, "spec": {**template["spec"], "restartPolicy": "Always"}}
    body = {"selector": {"matchLabels": {"app": "t2"}}, "template": served}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "t2"}, "spec": body}
    for name, wrapped in (("older", deployment), ("after", job("t3", 1, 1))):
        await api.create(IBM_APP_WRAPPERS, items(name, wrapped, kind=IBM_APP_WRAPPERS, node="inner"), SPACE)
    await until(lambda: states(api, "older", "Running", "Running", IBM_APP_WRAPPERS))
    await until(lambda: states(api, "after", "Pending", "Backoff", IBM_APP_WRAPPERS))
    assert (await api.get(IBM_APP_WRAPPERS, "older", SPACE))["status"]["running"] == 1
    with pytest.raises(ApiRefusal, match="generictemplates are immutable"):
        await api.patch(IBM_APP_WRAPPERS, "older", {"spec": {"resources": {"GenericItems": []}}}, SPACE)
    await api.delete(IBM_APP_WRAPPERS, "older", SPACE)
    await until(lambda: states(api, "after", "Running", "Running", IBM_APP_WRAPPERS))
    assert await first_group(api) == IBM_APP_WRAPPERS.group, "it alone has objects, so kubectl looks there first"
    await api.delete(IBM_APP_WRAPPERS, "after", SPACE)
    assert await first_group(api) == APP_WRAPPERS.group, "once it has none, the present generation is first again"


async def first_group(api: Connection) -> str:
    """Return the group that discovery lists first, of those with AppWrappers."""
    groups = [one["name"] for one in (await api.request("GET", "/apis"))["groups"]]
    return min(APP_WRAPPERS.group, MCAD.group, IBM_APP_WRAPPERS.group, key=groups.index)


async def pods_of_an_earlier_one_of_its_name_do_not_count(api: Connection) -> None:
    await api.create(MCAD, items("same", job("s", 1, 1)), SPACE)
    await until(lambda: states(api, "same", "Running", "Running"))
    pod = next(name for name in await names(api, PODS) if name.startswith("s-"))
    kept = [*(await api.get(PODS, pod, SPACE))["metadata"].get("finalizers", ()), "example.com/stays"]
    await api.patch(PODS, pod, {"metadata": {"finalizers": kept}}, SPACE)
    await api.patch(PODS, pod, {"status": {"phase": "Succeeded"}}, SPACE, "status")
    await until(lambda: states(api, "same", "Completed", "Completed"))
    await api.delete(MCAD, "same", SPACE)
    await until(lambda: is_removed(api, "s"))
    await api.create(MCAD, items("same", job("s", 1, 1)), SPACE)
    await until(lambda: states(api, "same", "Running", "Running"))
    status = (await api.get(MCAD, "same", SPACE))["status"]
    assert (pod in await names(api, PODS), status["Succeeded"], status["running"]) == (True, 0, 1)
    await api.patch(PODS, pod, {"metadata": {"finalizers": None}}, SPACE)
    await api.delete(MCAD, "same", SPACE)


async def is_removed(api: Connection, name: str) -> bool:
    return name not in await names(api, JOBS)


async def states(api: Connection, name: str, state: str, last: str, kind: Kind = MCAD) -> bool:
    status = (await api.get(kind, name, SPACE)).get("status") or {}
    return (status.get("state"), status.get("queuejobstate")) == (state, last)


async def runs(api: Connection, name: str) -> bool:
    found = [one for one in (await api.list(PODS, SPACE))["items"] if one["metadata"]["name"] == name]
    return any((one.get("status") or {}).get("phase") == "Running" for one in found)


async def is_gone(api: Connection, name: str, uid: str) -> bool:
    found = [one for one in (await api.list(PODS, SPACE))["items"] if one["metadata"]["name"] == name]
    return all(one["metadata"]["uid"] != uid for one in found)


def test_app_wrappers_run_on_phalanx_up(simulated: Up) -> None:
    async def scene() -> set[str]:
        async with await Connection.open(simulated.data / "kubeconfig") as api:
            await all_are_created_when_all_fit(api)
            await of_the_first_generation_waits_in_its_tree_and_completes(api)
            await of_the_groups_before_waits_in_its_tree_and_runs(api)
            await pods_of_an_earlier_one_of_its_name_do_not_count(api)
            await nobody_gets_more_by_wrapping(api)
            await what_fails_is_made_again_and_then_removed(api)
            return await names(api, APP_WRAPPERS)

    assert asyncio.run(scene()) == {"greedy", "forged", "again"}
