"""Objects without managed fields and templates, for those who ask for them by the Accept header."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from phalanx.slurm.cluster.api import PARTIAL
from tests.embedded.apiserver.inprocess import InProcess

JOBS = "/apis/batch/v1/namespaces/default/jobs"
CONTAINER = {"name": "c", "image": "host"}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "labels": {"a": "b"}},
    "spec": {"suspend": True, "template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}},
}


async def answered(client: InProcess, path: str, accept: str) -> Any:
    raw = client.request("GET", path)
    raw.headers[b"accept"] = accept.encode()
    return json.loads((await client.api(raw)).body)


def test_what_only_controllers_read_is_left_out_and_all_else_is_there(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            await client.make(JOBS, JOB)
            whole = await answered(client, JOBS, "application/json")
            [expected] = whole["items"]
            assert expected["metadata"].pop("managedFields")
            assert expected["spec"].pop("template")
            for _ in range(2):  # made at first, and kept
                assert await answered(client, JOBS, PARTIAL) == whole
            one = await answered(client, f"{JOBS}/j", PARTIAL)
            assert one == {"kind": "Job", "apiVersion": "batch/v1", **expected}
            patch = {"metadata": {"labels": {"a": "c"}}}
            assert (await client.ask("PATCH", f"{JOBS}/j", patch, "application/merge-patch+json")).code == 200
            assert (await answered(client, f"{JOBS}/j", PARTIAL))["metadata"]["labels"] == {"a": "c"}

    asyncio.run(scene())


def test_a_form_of_another_version_or_group_is_passed_over(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            await client.make(JOBS, JOB)
            for form in ("as=PartialObject;v=v2;g=phalanx.dev", "as=PartialObject;v=v1;g=meta.k8s.io"):
                found = await answered(client, JOBS, f"application/json;{form},application/json")
                assert "managedFields" in found["items"][0]["metadata"]

    asyncio.run(scene())
