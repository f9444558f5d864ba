"""Answers that clients compare with the real server's: what a write ignores, warns of and returns, and paths that are
not served."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.embedded.apiserver.inprocess import InProcess

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
MERGE, STRATEGIC, APPLY = (
    f"application/{form}" for form in ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
)
POD: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
JOB = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}}
ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


def test_writes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            made = await api.make(PODS, POD)
            for changed in ({"creationTimestamp": "2020-01-01T00:00:00Z"}, {"creationTimestamp": None}):
                answer = await api.ask("PATCH", f"{PODS}/p", {"metadata": changed}, MERGE)
                assert (answer.code, answer.body["metadata"]) == (200, made["metadata"]), "a birth is ignored"
            other = {"metadata": {"uid": "another"}}
            assert (await api.ask("PATCH", f"{PODS}/p", other, MERGE)).code in (409, 422), "an identity is refused"
            warnings = []
            for query in ("", "?propagationPolicy=Orphan", "?propagationPolicy=Background", "?orphanDependents=false"):
                await api.make(JOBS, JOB)
                warnings.append((await api.ask("DELETE", f"{JOBS}/j{query}")).warnings)
                await api.ask("PATCH", f"{JOBS}/j", {"metadata": {"finalizers": None}}, MERGE)
            assert warnings == [(ORPHANS,), (), (), ()]
            assert (await api.ask("DELETE", JOBS)).warnings == (ORPHANS,)
            group = "/apis/scheduling.k8s.io/v1/priorityclasses"
            await api.make(group, {"metadata": {"name": "high"}, "value": 1})
            assert (await api.ask("DELETE", f"{group}/high")).body["kind"] == "Status"

    asyncio.run(scene())


def test_an_apply_of_a_pods_status_finds_who_wrote_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(PODS, POD)
            condition = {"type": "Ok", "status": "True"}
            path = f"{PODS}/p/status?fieldManager="
            await api.ask("PATCH", f"{path}kubelet", {"status": {"conditions": [condition]}}, STRATEGIC)
            applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
            applied["status"] = {"conditions": [{**condition, "status": "False"}]}
            refused = await api.ask("PATCH", f"{path}me", applied, APPLY)
            assert refused.code == 409
            assert 'conflict with "kubelet" with subresource "status"' in refused.body["message"]
            taken = await api.ask("PATCH", f"{path}me&force=true", applied, APPLY)
            assert {one["manager"] for one in taken.body["metadata"]["managedFields"]} >= {"kubelet", "me"}
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
            of_job = await api.make(PODS, {**POD, "metadata": {"name": "q", "ownerReferences": [owner]}})
            assert "managedFields" not in of_job["metadata"], "pods of controllers are too many"

    asyncio.run(scene())


NOT_FOUND = "the server could not find the requested resource"
NOT_ALLOWED = "the server does not allow this method on the requested resource"


SERVED = ("/api", "/apis", "/apis/batch", "/apis/batch/v1", "/version")
BELOW_WHAT_IS_BUILT_IN = ("/api/v9", "/api/v9/pods", "/apis/batch/v9", "/apis/batch/v9/jobs")
NOTHING = ("/nothing", "/apis/nothing.example", "/apis/nothing.example/v1/things")
MEDIA = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def test_paths_and_forms_that_are_not_served(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            for path in SERVED:
                answer = await api.ask("POST", path, {})
                assert (answer.code, answer.body["message"]) == (405, NOT_ALLOWED), path
            for path in BELOW_WHAT_IS_BUILT_IN:
                answer = await api.ask("GET", path)
                assert (answer.code, answer.body["kind"], answer.body["message"]) == (404, "Status", NOT_FOUND), path
            for path in NOTHING:
                plain = await api.api(api.request("GET", path))
                assert (plain.code, plain.body) == (404, b"404 page not found\n"), path
            for accept, message in (
                ("text/html", f"406: Not Acceptable\n\nAvailable representations: {MEDIA}"),
                ("application/json;as=Thing;g=x;v=v1", f"only the following media types are accepted: {MEDIA}"),
            ):
                request = api.request("GET", PODS)
                request.headers[b"accept"] = accept.encode()
                refused = await api.api(request)
                assert (refused.code, json.loads(refused.body)["message"]) == (406, message)

    asyncio.run(scene())
