"""Answers that a kube-apiserver 1.36.2 gave to the same requests, where this server's had been others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.endpoints.test_words_of_kubernetes import JOB, JOBS, MERGE, POD, PODS, STRATEGIC
from tests.embedded.apiserver.inprocess import InProcess

MAPS = "/api/v1/namespaces/default/configmaps"
MAP = {"metadata": {"name": "m"}}
OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("query", "body", "code"),
    [
        ("propagationPolicy=Odd", OPTIONS, 200),
        ("gracePeriodSeconds=x", OPTIONS, 200),
        ("dryRun=Odd", OPTIONS, 200),
        ("orphanDependents=true&propagationPolicy=Orphan", {"unknown": 1}, 200),
        ("gracePeriodSeconds=x", None, 400),
        ("propagationPolicy=Odd", None, 422),
        ("", {**OPTIONS, "dryRun": ["Odd"]}, 422),
    ],
)
def test_a_body_of_a_deletion_stands_for_its_query(tmp_path: Path, query: str, body: Any, code: int) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(MAPS, MAP)
            assert (await api.ask("DELETE", f"{MAPS}/m?{query}", body)).code == code

    asyncio.run(scene())


DEPRECATED = ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)


def test_each_answer_about_endpoints_warns(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            path = "/api/v1/namespaces/default/endpoints"
            for method, where in (("POST", path), ("GET", path), ("GET", f"{path}/m"), ("DELETE", f"{path}/m")):
                assert (await api.ask(method, where, MAP if method == "POST" else None)).warnings == DEPRECATED

    asyncio.run(scene())


STALE = "AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: "


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        (PODS, POD, "pods/default/p"),
        (JOBS, JOB, "jobs/default/j"),
        ("/api/v1/nodes", {"metadata": {"name": "n"}}, "minions/n"),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {"metadata": {"name": "l"}}, "leases/default/l"),
    ],
)
def test_another_identity_is_told_before_a_missing_version(tmp_path: Path, path: str, body: Any, place: str) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            made = await api.make(path, body)
            other = {**body, "metadata": {**body["metadata"], "uid": "u"}}
            for query, first in (("", "/registry"), ("?dryRun=All", "")):
                refused = await api.ask("PUT", f"{path}/{body['metadata']['name']}{query}", other)
                key = f"StorageError: invalid object, Code: 4, Key: {first}/{place}, ResourceVersion: 0, {STALE}"
                assert refused.code == 409
                assert refused.body["message"].endswith(key + made["metadata"]["uid"])

    asyncio.run(scene())


def test_what_a_write_counts_and_fills_in(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(PODS, POD)
            same = await api.ask("PUT", f"{PODS}/p", POD)
            assert same.body["metadata"]["generation"] == 1, "admission puts back what it had added"
            volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
            made = await api.make("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
            assert made["status"]["lastPhaseTransitionTime"] == made["metadata"]["creationTimestamp"]
            slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
            await api.make(slices, {**MAP, "addressType": "IPv4", "endpoints": []})
            labelled = await api.ask("PATCH", f"{slices}/m", {"metadata": {"labels": {"a": "b"}}}, MERGE)
            assert labelled.body["metadata"]["generation"] == 2
            classes = "/apis/networking.k8s.io/v1/ingressclasses"
            given = {"controller": "a.example/c", "parameters": {"kind": "K", "name": "n"}}
            made = await api.make(classes, {**MAP, "spec": given})
            assert made["spec"]["parameters"]["scope"] == "Cluster"

    asyncio.run(scene())


def test_directives_in_a_new_list_are_dropped(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(MAPS, MAP)
            patch = {"metadata": {"finalizers": [{"$patch": "replace"}]}}
            assert (await api.ask("PATCH", f"{MAPS}/m", patch, STRATEGIC)).code == 200

    asyncio.run(scene())


def test_a_job_without_its_selector_does_not_match_its_template(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            await api.make(JOBS, JOB)
            refused = await api.ask("PUT", f"{JOBS}/j", JOB)
            found = [(one["field"], one["message"]) for one in refused.body["details"]["causes"]]
            unmatched = "Invalid value: null: `selector` does not match template `labels`"
            assert found.count(("spec.template.metadata.labels", unmatched)) == 2

    asyncio.run(scene())


def test_a_watch_tells_where_its_beginning_ends(tmp_path: Path) -> None:
    """Watches without a version, too, in each form."""

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            for form in ("", "PartialObjectMetadata", "Table"):
                accept = f"application/json;as={form};v=v1;g=meta.k8s.io" if form else "application/json"
                stream = await api.watch(f"{MAPS}?watch=1&allowWatchBookmarks=true", accept)
                event = await stream.next()
                shown = event["object"]["rows"][0]["object"] if form == "Table" else event["object"]
                assert event["type"] == "BOOKMARK"
                assert event["object"]["kind"] == (form or "ConfigMap")
                assert shown["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
                await stream.close()

    asyncio.run(scene())
