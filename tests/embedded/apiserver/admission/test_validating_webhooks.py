"""The server calls validating webhooks before it stores, deletes or connects to an object. They may only refuse the
request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.admission.hooks import JOBS, Hooks, Judge, configuration, hooks, job, labelled, rule
from tests.embedded.apiserver.inprocess import InProcess

pytestmark = pytest.mark.slow  # real HTTPS

MUTATING, VALIDATING = (
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations" for kind in ("mutating", "validating")
)
MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def scene(data: Path, **judges: Judge) -> AsyncIterator[tuple[InProcess, Hooks]]:
    async with InProcess.started(data) as server, hooks(**judges) as found:
        yield server, found


def passes(_: Any) -> Any:
    return {"allowed": True, "warnings": ["looked at"]}


def refuses(_: Any) -> Any:
    return {"allowed": False, "status": {"message": "not today"}}


def about(found: Hooks, path: str, *operations: str, plural: str = "configmaps", **rest: Any) -> Any:
    return configuration(found.hook(path, rules=[rule("", plural, *operations)], **rest))


def test_it_sees_what_mutating_webhooks_and_the_server_have_made(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=lambda _: labelled("seen"), b=passes) as (server, found):
            await server.make(VALIDATING, configuration(found.hook("/b")))
            await server.make(MUTATING, configuration(found.hook("/a")))
            answer = await server.ask("POST", JOBS, job())
            assert answer.code == 201
            assert "looked at" in str(answer.warnings)
            assert found.calls == ["/a", "/b"]
            shown = found.seen[-1][2]["request"]["object"]
            assert shown["metadata"]["labels"]["seen"] == "yes"
            assert shown["spec"]["selector"], "the selector that the server generates"

    asyncio.run(run())


def test_a_refusal_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=refuses) as (server, found):
            await server.make(MAPS, {"metadata": {"name": "there"}})
            made = await server.make(VALIDATING, about(found, "/a", "*"))
            assert made["webhooks"][0]["failurePolicy"] == "Fail"
            assert "reinvocationPolicy" not in made["webhooks"][0]
            asked = (
                ("POST", MAPS, {"metadata": {"name": "new"}}),
                ("PUT", f"{MAPS}/there", {"metadata": {"name": "there"}, "data": {"a": "b"}}),
                ("DELETE", f"{MAPS}/there", None),
            )
            for method, path, body in asked:
                answer = await server.ask(method, path, body)
                assert answer.code == 403
                assert 'admission webhook "a.hooks.test" denied the request: not today' in answer.body["message"]
            operations = [seen["request"]["operation"] for _, _, seen in found.seen]
            assert operations == ["CREATE", "UPDATE", "DELETE"]
            assert found.seen[-1][2]["request"]["oldObject"]["metadata"]["name"] == "there"
            names = [one["metadata"]["name"] for one in (await server.ask("GET", MAPS)).body["items"]]
            assert sorted(set(names) - {"kube-root-ca.crt"}) == ["there"]

    asyncio.run(run())


def test_an_invalid_object_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=refuses) as (server, found):
            await server.make(VALIDATING, configuration(found.hook("/a")))
            assert (await server.ask("POST", JOBS, job(parallelism=-1))).code == 422
            assert not found.calls

    asyncio.run(run())


def test_a_rule_may_name_a_subresource(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=refuses) as (server, found):
            made = await server.make(JOBS, job(suspend=True))
            hook = found.hook("/a", rules=[rule("batch", "jobs/status", "UPDATE")])
            await server.make(VALIDATING, configuration(hook))
            made["status"]["active"] = 1
            assert (await server.ask("PUT", f"{JOBS}/train/status", made)).code == 403
            assert found.seen[-1][2]["request"]["subResource"] == "status"
            made["spec"]["parallelism"] = 2
            assert (await server.ask("PUT", f"{JOBS}/train", made)).code == 200

    asyncio.run(run())


@pytest.mark.parametrize(("policy", "code"), [("Ignore", 201), ("Fail", 500)])
def test_failure_policy_decides_where_nobody_answers(tmp_path: Path, policy: str, code: int) -> None:
    async def run() -> None:
        async with InProcess.started(tmp_path) as server:
            found = Hooks(port=1)  # no server listens on this port
            await server.make(VALIDATING, about(found, "/a", "CREATE", failurePolicy=policy))
            assert (await server.ask("POST", MAPS, {"metadata": {"name": "new"}})).code == code

    asyncio.run(run())


def test_writes_side_by_side_lose_nothing_and_keep_quotas(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=passes) as (server, found):
            await server.make(JOBS, job())
            await server.make(VALIDATING, configuration(found.hook("/a", rules=[rule("*", "*", "CREATE", "UPDATE")])))
            media = "application/merge-patch+json"
            changes = [{"metadata": {"annotations": {f"k{number}": "v"}}} for number in range(4)]
            answers = await asyncio.gather(*(server.ask("PATCH", f"{JOBS}/train", one, media) for one in changes))
            assert [answer.code for answer in answers] == [200] * 4
            made = (await server.ask("GET", f"{JOBS}/train")).body
            assert made["metadata"]["annotations"].items() >= {f"k{number}": "v" for number in range(4)}.items()
            puts = [{**made, "spec": {**made["spec"], "backoffLimit": number}} for number in (1, 2, 3)]
            answers = await asyncio.gather(*(server.ask("PUT", f"{JOBS}/train", one) for one in puts))
            assert sorted(answer.code for answer in answers) == [200, 409, 409]
            quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "3"}}}
            await server.make("/api/v1/namespaces/default/resourcequotas", quota)
            there = len((await server.ask("GET", MAPS)).body["items"])
            answers = await asyncio.gather(
                *(server.ask("POST", MAPS, {"metadata": {"name": f"m{number}"}}) for number in range(5))
            )
            codes = sorted(answer.code for answer in answers)
            assert codes == [201] * (3 - there) + [403] * (2 + there)

    asyncio.run(run())


@pytest.mark.parametrize("path", [VALIDATING, MUTATING])
def test_services_that_wait_for_a_webhook_get_different_addresses_and_ports(tmp_path: Path, path: str) -> None:
    async def run() -> None:
        both = asyncio.Barrier(2)

        async def together(_: Any) -> Any:
            await both.wait()
            return passes(_)

        async with scene(tmp_path, a=together) as (server, found):
            await server.make(path, about(found, "/a", "CREATE", plural="services"))
            spec = {"type": "NodePort", "ports": [{"port": 80}]}
            bodies = [{"metadata": {"name": name}, "spec": spec} for name in ("one", "two")]
            services = "/api/v1/namespaces/default/services"
            answers = await asyncio.gather(*(server.ask("POST", services, one) for one in bodies))
            assert [answer.code for answer in answers] == [201, 201], [answer.body for answer in answers]
            given = [answer.body["spec"] for answer in answers]
            assert given[0]["clusterIP"] != given[1]["clusterIP"]
            assert given[0]["ports"][0]["nodePort"] != given[1]["ports"][0]["nodePort"]

    asyncio.run(run())


def test_connections_to_pods_are_asked_about(tmp_path: Path) -> None:
    async def run() -> None:
        async with scene(tmp_path, a=refuses) as (server, found):
            await server.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            pods = "/api/v1/namespaces/default/pods"
            await server.make(pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            await server.make(VALIDATING, about(found, "/a", "CONNECT", plural="pods/exec"))
            answer = await server.ask("POST", f"{pods}/p/exec?command=true")
            assert answer.code == 403
            assert "not today" in answer.body["message"]
            assert found.seen[-1][2]["request"]["operation"] == "CONNECT"

    asyncio.run(run())


def test_a_server_starts_although_no_webhook_answers(tmp_path: Path) -> None:
    """The pods of a webhook run only after the server has started."""

    async def run() -> None:
        async with InProcess.started(tmp_path) as server:
            nobody = Hooks(port=1).hook("/a", rules=[rule("*", "*", "CREATE", "UPDATE")], failurePolicy="Fail")
            await server.make(VALIDATING, configuration(nobody))
            await server.ask("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
        async with InProcess.started(tmp_path) as server:
            assert (await server.ask("POST", MAPS, {"metadata": {"name": "new"}})).code == 500
            names = [one["metadata"]["name"] for one in (await server.ask("GET", VALIDATING)).body["items"]]
            assert [(await server.ask("DELETE", f"{VALIDATING}/{name}")).code for name in names] == [200]
        async with InProcess.started(tmp_path) as server:
            assert (await server.ask("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view")).code == 200

    asyncio.run(run())


@pytest.mark.parametrize("path", [f"{MAPS}/kept", f"{MAPS}?labelSelector=of%3Dtest"])
def test_a_deletion_is_asked_about_again_where_the_object_has_changed_meanwhile(tmp_path: Path, path: str) -> None:
    async def run() -> None:
        change = {"metadata": {"labels": {"keep": "yes"}}}

        async def label_first(request: Any) -> Any:
            """Label the object, then allow the deletion of what the server has shown, if it has no such label."""
            await server.ask("PATCH", f"{MAPS}/kept", change, "application/merge-patch+json")
            return {"allowed": "keep" not in request["oldObject"]["metadata"]["labels"]}

        async with scene(tmp_path, a=label_first) as (server, found):
            await server.make(MAPS, {"metadata": {"name": "kept", "labels": {"of": "test"}}})
            await server.make(VALIDATING, about(found, "/a", "DELETE"))
            assert (await server.ask("DELETE", path)).code == 403
            assert len(found.calls) == 2
            assert (await server.ask("GET", f"{MAPS}/kept")).code == 200

    asyncio.run(run())
