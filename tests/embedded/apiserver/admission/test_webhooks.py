"""Mutating webhooks are called as a kube-apiserver calls them: by real HTTPS, in order, and whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apiserver.transport.request import Response
from tests.embedded.apiserver.admission.hooks import (
    CONFIGURATIONS,
    JOBS,
    Hooks,
    Judge,
    configuration,
    hooks,
    job,
    labelled,
    patch,
    rule,
)
from tests.embedded.apiserver.inprocess import InProcess

pytestmark = pytest.mark.slow  # real processes


@asynccontextmanager
async def scene(data: Path, **judges: Judge) -> AsyncIterator[tuple[InProcess, Hooks]]:
    async with InProcess.started(data) as server, hooks(**judges) as found:
        yield server, found


def passes(_: Any) -> Any:
    return {"allowed": True}


def test_a_review_says_all_that_a_real_one_says(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=passes) as (server, found):
            await server.make(CONFIGURATIONS, configuration(found.hook("/a", timeoutSeconds=7)))
            made = await server.make(JOBS, job())
            ((path, query, asked),) = found.seen
            assert (path, query) == ("/a", "timeout=7s")
            request = asked["request"]
            assert request["operation"] == "CREATE"
            assert (request["name"], request["namespace"], request["dryRun"]) == ("train", "default", False)
            assert request["kind"] == {"group": "batch", "version": "v1", "kind": "Job"}
            assert request["resource"] == {"group": "batch", "version": "v1", "resource": "jobs"}
            assert request["userInfo"]["username"] == "admin"
            assert request["oldObject"] is None
            assert request["object"]["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler", "defaults"
            made["spec"]["suspend"] = True
            await server.ask("PUT", f"{JOBS}/train", made)
            _, _, asked = found.seen[-1]
            assert asked["request"]["operation"] == "UPDATE"
            assert asked["request"]["oldObject"]["spec"]["suspend"] is False
            assert asked["request"]["object"]["spec"]["suspend"] is True
            answer = await server.ask("POST", f"{JOBS}?dryRun=All", job("dry"))
            assert answer.code == 201
            assert found.seen[-1][2]["request"]["dryRun"] is True

    asyncio.run(run())


def test_each_sees_what_the_one_before_left_and_the_object_is_stored_so(tmp_path: Path) -> None:
    def second(request: Any) -> Any:
        assert request["object"]["metadata"]["labels"]["first"] == "yes"
        return {**patch({"op": "replace", "path": "/spec/suspend", "value": True}), "warnings": ["it is suspended"]}

    async def run() -> None:
        async with scene(tmp_path, first=lambda _: labelled("first"), second=second) as (server, found):
            later, sooner = found.hook("/second"), found.hook("/first")
            await server.make(CONFIGURATIONS, configuration(later, name="z"))
            await server.make(CONFIGURATIONS, configuration(sooner, name="a"))
            answer = await server.ask("POST", JOBS, job())
            assert answer.body["spec"]["suspend"] is True
            assert answer.warnings == ("it is suspended",)
            assert found.calls == ["/first", "/second"]
            assert (await server.ask("GET", f"{JOBS}/train")).body == answer.body

    asyncio.run(run())


@pytest.mark.parametrize(
    ("narrowed", "called"),
    [
        ({}, True),
        ({"objectSelector": {"matchLabels": {"app": "x"}}}, True),
        ({"objectSelector": {"matchExpressions": [{"key": "phalanx.dev/queue", "operator": "Exists"}]}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, False),
        ({"matchConditions": [{"name": "a", "expression": "object.metadata.labels.app == 'x'"}]}, True),
        ({"matchConditions": [{"name": "a", "expression": "request.userInfo.username == 'bob'"}]}, False),
        ({"rules": [rule("*", "*", "CREATE")]}, True),
        (
            {"rules": [rule("", "pods", "CREATE")]},
            False,
        ),
        (
            {
                "rules": [
                    {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["jobs"]}
                ]
            },
            False,
        ),
    ],
    ids=str,
)
def test_who_is_asked_about_it(tmp_path: Path, narrowed: Any, called: bool) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=passes) as (server, found):
            await server.make(CONFIGURATIONS, configuration(found.hook("/a", **narrowed)))
            await server.make(JOBS, job())
            assert (found.calls == ["/a"]) is called

    asyncio.run(run())


@pytest.mark.parametrize(("policy", "calls"), [("IfNeeded", ["/a", "/b", "/a"]), ("Never", ["/a", "/b"])])
def test_a_change_after_it_brings_a_second_call(tmp_path: Path, policy: str, calls: list[str]) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=lambda _: labelled("a"), b=lambda _: labelled("b")) as (server, found):
            hook = found.hook("/a", reinvocationPolicy=policy)
            await server.make(CONFIGURATIONS, configuration(hook, found.hook("/b")))
            made = await server.make(JOBS, job())
            assert found.calls == calls
            assert made["metadata"]["labels"].items() >= {"a": "yes", "b": "yes"}.items()

    asyncio.run(run())


def test_one_that_changes_nothing_after_it_brings_none(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=lambda _: labelled("a"), b=passes) as (server, found):
            hook = found.hook("/a", reinvocationPolicy="IfNeeded")
            await server.make(CONFIGURATIONS, configuration(hook, found.hook("/b")))
            await server.make(JOBS, job())
            assert found.calls == ["/a", "/b"]

    asyncio.run(run())


def denies(status: Any) -> Judge:
    return lambda _: {"allowed": False, **({"status": status} if status else {})}


@pytest.mark.parametrize(
    ("status", "code", "reason", "words"),
    [
        (
            None,
            403,
            "Forbidden",
            'jobs.batch "train" is forbidden: admission webhook "a.hooks.test" denied the request',
        ),
        ({"message": "no"}, 403, "Forbidden", 'webhook "a.hooks.test" denied the request: no'),
        ({"reason": "Because"}, 403, "Because", "denied the request: Because"),
        ({"code": 422, "reason": "Invalid", "message": "odd"}, 422, "Invalid", "denied the request: odd"),
        ({"code": 500, "message": "broken"}, 500, "InternalError", "Internal error occurred: admission webhook"),
    ],
)
def test_a_denial_is_told_in_its_words(tmp_path: Path, status: Any, code: int, reason: str, words: str) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=denies(status)) as (server, found):
            await server.make(CONFIGURATIONS, configuration(found.hook("/a", failurePolicy="Ignore")))
            answer = await server.ask("POST", JOBS, job())
            assert (answer.code, answer.body["reason"]) == (code, reason)
            assert words in answer.body["message"]
            assert (await server.ask("GET", f"{JOBS}/train")).code == 404

    asyncio.run(run())


BROKEN: dict[str, Judge] = {
    "status 500": lambda _: Response(code=500, body=b"oh"),
    "malformed": lambda _: Response(body=b"no json"),
    "expected AdmissionReview": lambda _: Response(body=b'{"kind": "Pod"}'),
    "response.uid": lambda _: {"allowed": True, "uid": "another"},
    "base64": lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": "?"},
    "unsupported patch type": lambda _: {"allowed": True, "patchType": "Merge", "patch": "e30="},
}


@pytest.mark.parametrize("words", BROKEN)
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_an_answer_that_is_none_is_a_failure(tmp_path: Path, words: str, policy: str) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=BROKEN[words]) as (server, found):
            await server.make(CONFIGURATIONS, configuration(found.hook("/a", failurePolicy=policy)))
            answer = await server.ask("POST", JOBS, job())
            assert answer.code == (500 if policy == "Fail" else 201)
            if policy == "Fail":
                assert 'failed calling webhook "a.hooks.test"' in answer.body["message"]
                assert words in answer.body["message"]

    asyncio.run(run())


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_nobody_there_is_a_failure(tmp_path: Path, policy: str) -> None:
    async def run() -> None:
        async with scene(tmp_path) as (server, found):
            gone = found.hook("/a", failurePolicy=policy)
            gone["clientConfig"]["url"] = "https://127.0.0.1:1/a"
            await server.make(CONFIGURATIONS, configuration(gone))
            answer = await server.ask("POST", JOBS, job())
            assert answer.code == (500 if policy == "Fail" else 201)

    asyncio.run(run())


def test_a_certificate_of_another_authority_is_a_failure(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=passes) as (server, found):
            hook = found.hook("/a")
            del hook["clientConfig"]["caBundle"]
            await server.make(CONFIGURATIONS, configuration(hook))
            answer = await server.ask("POST", JOBS, job())
            assert answer.code == 500
            assert "certificate verify failed" in answer.body["message"]

    asyncio.run(run())


def test_one_that_does_not_answer_in_time_is_a_failure(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def run() -> None:
        deaf = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with deaf, scene(tmp_path) as (server, found):
            hook = found.hook("/a", timeoutSeconds=1, failurePolicy="Ignore")
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{deaf.sockets[0].getsockname()[1]}/a"
            await server.make(CONFIGURATIONS, configuration(hook))
            await server.make(JOBS, job())

    asyncio.run(run())


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([{"op": "remove", "path": "/spec/none/none"}], "does not apply"),
        ([{"op": "replace", "path": "/metadata/name", "value": "other"}], "the identity of the object"),
        ([{"op": "replace", "path": "", "value": 5}], "the identity of the object"),
        ([{"op": "replace", "path": "/spec/parallelism", "value": "many"}], "parallelism"),
        ([{"op": "replace", "path": "/spec/parallelism", "value": -1}], "spec.parallelism"),
    ],
)
def test_a_patch_that_makes_no_job_of_it_is_refused(tmp_path: Path, operations: Any, words: str) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=lambda _: patch(*operations)) as (server, found):
            await server.make(CONFIGURATIONS, configuration(found.hook("/a")))
            answer = await server.ask("POST", JOBS, job())
            assert answer.code in {400, 422, 500}
            assert words in answer.body["message"]
            assert (await server.ask("GET", f"{JOBS}/train")).code == 404

    asyncio.run(run())


def test_what_no_user_may_change_no_webhook_changes_for_him(tmp_path: Path) -> None:
    def sly(request: Any) -> Any:
        if request["operation"] == "CREATE":
            return {"allowed": True}
        return patch(
            {"op": "add", "path": "/status/succeeded", "value": 7},
            {"op": "add", "path": "/metadata/resourceVersion", "value": "1"},
            {"op": "add", "path": "/metadata/generation", "value": 70},
        )

    async def run() -> None:
        async with scene(tmp_path, a=sly) as (server, found):
            await server.make(CONFIGURATIONS, configuration(found.hook("/a")))
            made = await server.make(JOBS, job())
            answer = await server.ask(
                "PATCH", f"{JOBS}/train", {"spec": {"suspend": True}}, "application/merge-patch+json"
            )
            assert answer.code == 200, answer.body
            assert "succeeded" not in answer.body["status"]
            assert answer.body["metadata"]["generation"] == made["metadata"]["generation"] + 1
            assert int(answer.body["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])

    asyncio.run(run())


def test_two_who_change_it_at_once_lose_nothing(tmp_path: Path) -> None:
    """Patches wait for the webhook side by side; each is made anew from what the other left."""

    async def run() -> None:
        async with scene(tmp_path, a=passes) as (server, found):
            await server.make(JOBS, job())
            await server.make(CONFIGURATIONS, configuration(found.hook("/a")))
            media = "application/merge-patch+json"
            changes = [{"metadata": {"annotations": {f"k{number}": "v"}}} for number in range(4)]
            answers = await asyncio.gather(*(server.ask("PATCH", f"{JOBS}/train", one, media) for one in changes))
            assert [answer.code for answer in answers] == [200] * 4
            kept = (await server.ask("GET", f"{JOBS}/train")).body["metadata"]["annotations"]
            assert kept.items() >= {f"k{number}": "v" for number in range(4)}.items()
            assert len(found.calls) > 4, "some were overtaken"

    asyncio.run(run())


def test_a_put_that_was_overtaken_is_a_conflict(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=passes) as (server, found):
            made = await server.make(JOBS, job())
            await server.make(CONFIGURATIONS, configuration(found.hook("/a")))
            changed = [{**made, "spec": {**made["spec"], "backoffLimit": number}} for number in (1, 2, 3)]
            answers = await asyncio.gather(*(server.ask("PUT", f"{JOBS}/train", one) for one in changed))
            assert sorted(answer.code for answer in answers) == [200, 409, 409]

    asyncio.run(run())


def test_a_quota_holds_for_those_who_wait_side_by_side(tmp_path: Path) -> None:
    pods = "/api/v1/namespaces/default/pods"

    def pod(number: int) -> Any:
        return {"metadata": {"name": f"p{number}"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

    async def run() -> None:
        async with scene(tmp_path, a=passes) as (server, found):
            await server.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
            await server.make("/api/v1/namespaces/default/resourcequotas", quota)
            await server.make(CONFIGURATIONS, configuration(found.hook("/a", rules=[rule("", "pods", "CREATE")])))
            answers = await asyncio.gather(*(server.ask("POST", pods, pod(number)) for number in range(5)))
            assert sorted(answer.code for answer in answers) == [201, 201, 403, 403, 403]

    asyncio.run(run())


def test_a_webhook_is_found_by_its_service(tmp_path: Path) -> None:
    """By the pods that the Service selects and that are ready, at the port that they name."""

    async def run() -> None:
        async with scene(tmp_path, a=passes) as (server, found):
            hook = found.hook("/a")
            del hook["clientConfig"]["url"]
            hook["clientConfig"]["service"] = {"name": "hook", "namespace": "default", "path": "/a"}
            core = "/api/v1/namespaces/default"
            await server.make(f"{core}/serviceaccounts", {"metadata": {"name": "default"}})
            ports = [{"port": 443, "targetPort": "https"}]
            await server.make(
                f"{core}/services", {"metadata": {"name": "hook"}, "spec": {"selector": HOOK, "ports": ports}}
            )
            await server.make(CONFIGURATIONS, configuration(hook))
            answer = await server.ask("POST", JOBS, job())
            assert 'no endpoints available for service "hook"' in answer.body["message"]
            container = {"name": "c", "image": "i", "ports": [{"name": "https", "containerPort": found.port}]}
            await server.make(
                f"{core}/pods", {"metadata": {"name": "h", "labels": HOOK}, "spec": {"containers": [container]}}
            )
            ready = {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
            patched = await server.ask(
                "PATCH", f"{core}/pods/h/status", {"status": ready}, "application/merge-patch+json"
            )
            assert patched.code == 200
            await server.make(JOBS, job())
            assert found.calls == ["/a"]

    asyncio.run(run())


HOOK = {"app": "hook"}


def test_one_that_was_changed_or_removed_is_called_so(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=passes, b=passes) as (server, found):
            made = await server.make(CONFIGURATIONS, configuration(found.hook("/a")))
            assert made["metadata"]["generation"] == 1
            await server.make(JOBS, job("one"))
            made["webhooks"][0]["clientConfig"]["url"] = made["webhooks"][0]["clientConfig"]["url"].replace("/a", "/b")
            put = await server.ask("PUT", f"{CONFIGURATIONS}/hooks", made)
            assert put.body["metadata"]["generation"] == 2
            await server.make(JOBS, job("two"))
            assert (await server.ask("DELETE", f"{CONFIGURATIONS}/hooks")).code == 200
            await server.make(JOBS, job("three"))
            assert found.calls == ["/a", "/b"]

    asyncio.run(run())


def test_custom_resources_are_asked_about_and_pruned(tmp_path: Path) -> None:
    def asked(request: Any) -> Any:
        spec = request["object"]["spec"]
        return patch(
            {"op": "replace", "path": "/spec/size", "value": spec["size"] + 1},
            {"op": "add", "path": "/spec/unknown", "value": 1},
        )

    async def run() -> None:
        async with scene(tmp_path, a=asked) as (server, found):
            definition = {"metadata": {"name": "boxes.hooks.test"}, "spec": BOXES}
            await server.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            await server.make(
                CONFIGURATIONS, configuration(found.hook("/a", rules=[rule("hooks.test", "boxes", "CREATE")]))
            )
            box = {"apiVersion": "hooks.test/v1", "kind": "Box", "metadata": {"name": "b"}, "spec": {"size": 1}}
            made = await server.make("/apis/hooks.test/v1/boxes", box)
            assert made["spec"] == {"size": 2}

    asyncio.run(run())


SIZE = {"type": "object", "properties": {"size": {"type": "integer"}}}

BOXES = {
    "group": "hooks.test",
    "scope": "Cluster",
    "names": {"plural": "boxes", "singular": "box", "kind": "Box"},
    "versions": [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SIZE}}},
        }
    ],
}
