"""Roles that an older program wrote get the rights that they lack, and keep those that were added."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.embedded.apiserver.inprocess import InProcess


def rule(verbs: str, resources: str, group: str = "", **rest: object) -> object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **rest}


def test_roles_of_an_older_program_get_what_they_lack_and_keep_what_was_added(tmp_path: Path) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

    async def held(api: InProcess, name: str) -> list[Any]:
        return list((await api.ask("GET", f"{path}/{name}")).body["rules"])

    async def run() -> None:
        own = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}
        fixed = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": [own]}
        async with InProcess.started(tmp_path) as api:
            first = await held(api, "view")
            older = [rule for rule in first if rule["apiGroups"] != ["metrics.k8s.io"]]
            assert older != first
            await api.ask("PATCH", f"{path}/view", {"rules": [own, *older]}, "application/merge-patch+json")
            await api.ask("PATCH", f"{path}/edit", fixed, "application/merge-patch+json")
        async with InProcess.started(tmp_path) as api:
            now = await held(api, "view")
            assert own in now
            assert all(rule in now for rule in first)
            assert await held(api, "edit") == [own]

    asyncio.run(run())
