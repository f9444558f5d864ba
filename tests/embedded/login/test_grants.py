"""`embedded/login/grants.py`: the rights of users of a shared machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from phalanx.embedded.login.grants import give_namespace
from tests.embedded.login.test_rules import ADA, HOME, MERGE, _Wire, asking, pod, shared


def test_a_pod_requests_the_share_of_its_slot_at_least(tmp_path: Path) -> None:
    """125 pods that request nothing fill a node of which the scheduler believes that all cpu is free."""

    async def act() -> None:
        async with shared(tmp_path) as (admin, ada):
            node = {"metadata": {"name": "n"}}
            offered = {"cpu": "8", "memory": "16Gi", "pods": "110"}
            await admin.make("/api/v1/nodes", node)
            status = {"status": {"capacity": offered, "allocatable": offered}}
            assert (await admin.ask("PATCH", "/api/v1/nodes/n/status", status, MERGE)).code == 200
            wire: Any = _Wire(admin)
            await give_namespace(wire, ADA)
            made = await ada.make(f"{HOME}/pods", pod())
            assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "72m", "memory": "148Mi"}}
            answer = await ada.ask("POST", f"{HOME}/pods", asking("1m") | {"metadata": {"name": "q"}})
            assert (answer.code, "minimum cpu usage per Pod is 72m" in answer.body["message"]) == (403, True)
            assert (await ada.ask("DELETE", f"{HOME}/limitranges/phalanx")).code == 403
            looser = {"spec": {"limits": []}}
            assert (await admin.ask("PATCH", f"{HOME}/limitranges/phalanx", looser, MERGE)).code == 200
            await give_namespace(wire, ADA)
            await ada.make(f"{HOME}/pods", asking("1m") | {"metadata": {"name": "q"}})

    asyncio.run(act())
