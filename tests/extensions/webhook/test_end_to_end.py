"""Point 2 of the protocol, its fallback, end to end: an API server without our policies asks the webhook by real HTTPS,
and each Job becomes what the policies would have made of it, for users, controllers and kubectl alike."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import Connection
from phalanx.extensions.webhook.serving import ReviewAnswerer, serving, show, tls_context
from phalanx.extensions.webhook.trust import CALLED_AS_WEBHOOK, Keeper
from phalanx.kube.install.admission_policy import INSTALLED, WEBHOOK, WEBHOOKS
from phalanx.metrics.admissions import Admissions
from tests.embedded.apiserver.inprocess import InProcess
from tests.extensions.webhook.reviews import CREATED, QUEUE, UPDATED, Case, signed

JOBS = "/apis/batch/v1/namespaces/default/jobs"
GROUP = "/apis/admissionregistration.k8s.io/v1"
NEVER_THE_SAME = ("creationTimestamp", "uid", "resourceVersion", "managedFields")


async def stored(server: InProcess) -> dict[str, Any]:
    """What becomes of the whole table: every Job created, then every change made, without what is never the same."""
    found = {}
    for case in CREATED:
        found[case.name] = await server.ask("POST", JOBS, case.job())
    for number, case in enumerate(UPDATED):
        assert case.old is not None
        name = f"update-{number}"
        first = Case(name=name, labels=case.old.labels)
        made = (await server.ask("POST", JOBS, first.job())).body
        meta = {key: value for key, value in made["metadata"].items() if key not in ("labels", "annotations")}
        wanted = case.job()["metadata"]
        spec = {**made["spec"], **(case.spec or {})}
        found[case.name] = await server.ask(
            "PUT", f"{JOBS}/{name}", {**made, "metadata": {**wanted, **meta}, "spec": spec}
        )
    return {name: (answer.code, plain(answer.body)) for name, answer in found.items()}


def plain(job: Any) -> Any:
    if job["kind"] == "Status":
        return job["message"]
    meta, spec, template = job["metadata"], job["spec"], job["spec"]["template"]
    return {
        **job,
        "metadata": without_uids({key: value for key, value in meta.items() if key not in NEVER_THE_SAME}),
        "spec": {
            **{key: value for key, value in spec.items() if key != "selector"},
            "template": {**template, "metadata": without_uids(template["metadata"])},
        },
    }


def without_uids(meta: Any) -> Any:
    labels = {key: text for key, text in (meta.get("labels") or {}).items() if not key.endswith("uid")}
    return {**meta, "labels": labels}


async def by_policy(data: Path) -> dict[str, Any]:
    async with InProcess.started(data) as server:
        for kind, body in INSTALLED:
            await server.make(f"{GROUP}/{kind.plural}", body)
        return await stored(server)


async def by_webhook(data: Path, admissions: Admissions) -> dict[str, Any]:
    async with InProcess.started(data) as server:
        context = tls_context()
        async with serving(("127.0.0.1", 0), context, ReviewAnswerer(admissions)) as port:
            (hook,) = WEBHOOK["webhooks"]
            url = {"url": f"https://127.0.0.1:{port}{hook['clientConfig']['service']['path']}"}
            await server.make(f"{GROUP}/{WEBHOOKS.plural}", {**WEBHOOK, "webhooks": [{**hook, "clientConfig": url}]})
            secrets = "/api/v1/namespaces/default/secrets"
            await server.make(secrets, {"metadata": {"name": CALLED_AS_WEBHOOK.kept_in}, "type": "Opaque"})
            api: Connection = Direct(server)  # type: ignore[assignment]  # it answers as a connection does
            now = lambda: dt.datetime.now(dt.UTC)  # noqa: E731 (it is passed on, not called)
            keeper = Keeper(api, "default", ["127.0.0.1"], lambda pair: show(context, pair), now)
            refused = await server.ask("POST", JOBS, CREATED[0].job())
            assert refused.code == 500, "who has our label waits for the webhook"
            assert (await server.ask("POST", JOBS, Case(name="free", labels={"app": "web"}).job())).code == 201
            await keeper.step()
            return await stored(server)


class Direct:
    """A connection without a socket."""

    def __init__(self, server: InProcess) -> None:
        self._server = server

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        return (await self._server.ask("GET", kind.path(namespace, name))).body

    async def replace(self, kind: Any, body: Any) -> Any:
        meta = body["metadata"]
        answer = await self._server.ask("PUT", kind.path(meta.get("namespace", ""), meta["name"]), body)
        assert answer.code == 200, answer.body
        return answer.body


@pytest.mark.slow
def test_each_job_becomes_the_same_by_either(tmp_path: Path) -> None:
    admissions = Admissions()
    policy = asyncio.run(by_policy(tmp_path / "policy"))
    webhook = asyncio.run(by_webhook(tmp_path / "webhook", admissions))
    for name, expected in policy.items():
        assert webhook[name] == expected, name
    assert len(policy) == len(CREATED) + len(UPDATED)
    assert [said for code, said in policy.values() if code > 201] == []
    _, queued = policy["queued"]
    assert queued["spec"]["suspend"] is True
    assert queued["metadata"]["annotations"] == {"phalanx.dev/user": "admin"}
    counted = {s.labels["outcome"]: s.value for m in admissions.collect() for s in m.samples if "outcome" in s.labels}
    assert counted["changed"] > len(CREATED) / 2


def test_only_what_a_policy_is_about_comes_to_the_webhook(tmp_path: Path) -> None:
    """The match conditions of its configuration exclude patches of the scheduler and of controllers. No webhook runs,
    so only requests that would need a call are refused."""

    async def run() -> None:
        async with InProcess.started(tmp_path) as server:
            await server.make(JOBS, Case(name="queued", labels=QUEUE, annotations=signed("me")).job())
            (hook,) = WEBHOOK["webhooks"]
            nowhere = {**hook, "clientConfig": {"url": "https://127.0.0.1:1/"}}
            await server.make(f"{GROUP}/{WEBHOOKS.plural}", {**WEBHOOK, "webhooks": [nowhere]})

            async def patched(change: Any, subresource: str = "") -> int:
                path = f"{JOBS}/queued{subresource}"
                return (await server.ask("PATCH", path, change, "application/merge-patch+json")).code

            assert await patched({"spec": {"suspend": True}, "metadata": {"annotations": {"note": "1"}}}) == 200
            assert await patched({"status": {"active": 1}}, "/status") == 200
            assert (await server.ask("POST", JOBS, Case(name="web", labels={"app": "web"}).job())).code == 201
            assert await patched({"metadata": {"annotations": signed("root")}}) == 500
            assert await patched({"metadata": {"annotations": {"phalanx.dev/admitted": "1"}}}) == 500
            assert (await server.ask("POST", JOBS, Case(name="next", labels=QUEUE).job())).code == 500

    asyncio.run(run())
