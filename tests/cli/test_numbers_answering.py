"""The numbers that the user of a job may see about it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.cli.cluster.numbers.answering import answer, job_numbers, source_of
from phalanx.cli.cluster.numbers.fetching import GROUP, standing_of
from phalanx.cli.cluster.target import Namespace, Target
from phalanx.cli.cluster.visibility import visible
from phalanx.cli.commands.status.explain import explain
from phalanx.client.connection import Connection
from phalanx.client.kind import NAMESPACES, Kind
from phalanx.errors import PhalanxError
from phalanx.loop import step
from phalanx.model.event import NodeSeen, QueueSeen, Submitted
from phalanx.model.job import Job
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, Quota
from phalanx.report.status import queue_statuses
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role
from tests.embedded.apiserver.process import ServerProcess


class Nothing:
    def apply(self, *_: object) -> None:
        """Nobody carries the plan out."""


def of(name: str, user: str, pods: int, submitted_s: float, queue: str = "lab") -> Job:
    return replace(job(name, role("main", pods, cpu=1000), queue=queue), user=user, submitted_s=submitted_s)


def cluster() -> Cluster:
    """Four cpus, all of them eve's; two jobs of bob wait behind one of eve."""
    found = Cluster()
    events = [
        NodeSeen(node("n1", cpu=4000)),
        QueueSeen(Queue(name="lab", quotas=(Quota(guaranteed=(("cpu", 2000),), limit=(("cpu", 8000),)),))),
        QueueSeen(Queue(name="idle", quotas=(Quota(guaranteed=(("cpu", 1000),)),))),
        Submitted(of("eve/runs", "eve", 4, 1.0)),
    ]
    step(found, events, Policy(), 10.0, Nothing())
    late = [of("eve/next", "eve", 3, 2.0), of("bob/one", "bob", 2, 3.0), of("bob/two", "bob", 1, 4.0)]
    step(found, [Submitted(one) for one in late], Policy(), 20.0, Nothing())
    return found


def test_position_and_demand_ahead_are_those_of_the_queues_order() -> None:
    numbers = {one.job: one for one in job_numbers(cluster(), ["bob/two", "bob/one", "eve/runs", "bob/gone"])}
    assert set(numbers) == {"bob/two", "bob/one", "eve/runs"}
    two, runs = numbers["bob/two"], numbers["eve/runs"]
    assert (two.position, two.waiting, two.ahead.jobs, two.ahead.pods) == (3, 3, 2, 5)
    assert two.ahead.amounts["cpu"] == 5000
    assert (two.own_running.jobs, two.own_waiting.jobs) == (0, 2)
    assert (runs.position, runs.own_running.amounts["cpu"]) == (0, 4000)


def test_an_answer_names_no_other_job_and_no_user() -> None:
    state = cluster()
    source = source_of(state, list(queue_statuses(state)), state.reason)
    everything = answer(source, ("v1", "namespaces", "bob", "jobs", "-", "reason"))
    assert [one["metadata"]["name"] for one in everything["items"]] == ["one", "two"]
    assert everything["items"][0]["reason"]["code"] == "NoRoom"
    assert "eve" not in str(everything)
    assert answer(source, ("v1", "namespaces", "bob", "jobs", "runs", "reason"))["code"] == 404
    assert answer(source, ("v2", "queues", "-", "summary"))["code"] == 404


def test_a_summary_says_what_is_used_guaranteed_and_lendable() -> None:
    state = cluster()
    source = source_of(state, list(queue_statuses(state)), state.reason)
    lab = answer(source, ("v1", "queues", "lab", "summary"))
    cpu = next(one for one in lab["usage"] if one["resource"] == "cpu")
    assert cpu == {
        "flavor": "",
        "resource": "cpu",
        "used": "4",
        "guaranteed": "2",
        "limit": "8",
        "borrowed": "2",
        "lendable": "0",
    }
    [idle, _] = answer(source, ("v1", "queues", "-", "summary"))["items"]
    assert idle["usage"][0]["lendable"] == "1"
    back = standing_of(lab)
    status = next(one for one in source.standings if one.queue == "lab")
    assert (back.running, back.pending, back.usage[0].used) == (status.running, status.pending, 4000)


RBAC = "rbac.authorization.k8s.io"
ACCOUNTS = Kind(plural="serviceaccounts", name="ServiceAccount")
ROLES, BINDINGS = (Kind(group=RBAC, plural=f"{name.lower()}s", name=name) for name in ("Role", "RoleBinding"))


async def made(api: Connection, kind: Kind, name: str, namespace: str = "", **fields: Any) -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **fields}
    await api.create(kind, body, namespace)


async def token_of_bob(api: Connection) -> str:
    """Return the token of an account that may read numbers in the namespace bob, and list nothing."""
    await made(api, NAMESPACES, "bob")
    await made(api, ACCOUNTS, "bob", "bob")
    rule = {"apiGroups": [GROUP], "resources": ["jobs/reason"], "verbs": ["get"]}
    await made(api, ROLES, "numbers", "bob", rules=[rule])
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "numbers"}
    subject = {"kind": "ServiceAccount", "name": "bob", "namespace": "bob"}
    await made(api, BINDINGS, "numbers", "bob", roleRef=reference, subjects=[subject])
    asked = await api.request("POST", "/api/v1/namespaces/bob/serviceaccounts/bob/token", body={"spec": {}})
    return str(asked["status"]["token"])


def kubeconfig_with(token: str, server: ServerProcess, file: Path) -> Path:
    found = yaml.safe_load(server.kubeconfig.read_text())
    found["users"][0]["user"] = {"token": token}
    file.write_text(yaml.safe_dump(found))
    return file


@pytest.mark.slow
def test_explain_prints_numbers_to_a_user_who_may_list_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = cluster()
    source = source_of(state, list(queue_statuses(state)), state.reason)
    space = Namespace(namespace="bob")

    async def scene(server: ServerProcess) -> None:
        async with await Connection.open(server.kubeconfig) as api:
            token = await token_of_bob(api)
        target = Target(kubeconfig=kubeconfig_with(token, server, tmp_path / "kubeconfig"))
        async with visible(
            server.data / "views", lambda group, path, query: partial(answer, source, path), lambda *_: None
        ):
            await explain("one", target=target, space=space)
            page = capsys.readouterr().out
            assert page.startswith("bob/one: queued, in queue lab\nreason\n  NoRoom: ")
            assert "place\n  2 of 3 waiting jobs in queue lab\n  ahead: 1 job, 3 pods (3 cpu" in page
            assert "eve" not in page
            await explain("bob/two", target=target, space=space, json=True)
            assert json.loads(capsys.readouterr().out)["position"] == 3
            with pytest.raises(PhalanxError):
                await explain("eve/next", target=target, space=space)

    with ServerProcess.started(tmp_path / "server") as server:
        asyncio.run(scene(server))
