"""`phalanx visibility` beside a real server: its objects, its rights, its Secret and APIServices, over real TLS."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from phalanx.cli.commands.in_cluster.served_apis import API_SERVICES, APIS, ServedApi
from phalanx.cli.commands.in_cluster.visibility import visible
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import CONFIG_MAPS, CRDS, JOBS, NAMESPACES, NODES, SECRETS, Kind
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.embedded.apiserver.auth.authority import Pair, make_authority
from phalanx.extensions.aggregation import CONFIG_MAP
from phalanx.kube.install.definitions import crds_of, install
from tests.dialects.kueue.test_pending import workload
from tests.dialects.kueue.written import cluster_queue, group, local_queue
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.waiting import until
from tests.extensions.test_aggregation_front_proxy import DATA
from tests.extensions.test_aggregation_serving import PENDING, client_of
from tests.kube.double import node

DEPLOY = Path(__file__).parents[2] / "deploy"
META = ("name", "labels", "annotations", "ownerReferences")
RBAC = "rbac.authorization.k8s.io"
ROLES = Kind(group=RBAC, plural="clusterroles", name="ClusterRole", namespaced=False)
BINDINGS = Kind(group=RBAC, plural="clusterrolebindings", name="ClusterRoleBinding", namespaced=False)
BINDINGS_IN = Kind(group=RBAC, plural="rolebindings", name="RoleBinding")


def registration() -> dict[str, Any]:
    """The kind APIService, which the embedded server does not have, because it does not aggregate other servers."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "APIService", "plural": "apiservices", "singular": "apiservice", "listKind": "APIServiceList"}
    return {
        "metadata": {
            "name": f"apiservices.{API_SERVICES.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": API_SERVICES.group,
            "scope": "Cluster",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def made(api: Connection, kind: Kind, obj: dict[str, Any], namespace: str = "") -> None:
    meta = {key: obj["metadata"][key] for key in META if key in obj["metadata"]}
    await api.create(kind, {**obj, "apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}, namespace)


async def prepared(api: Connection, front: str) -> None:
    """Create what `phalanx visibility` needs of a cluster, for each group that it serves."""
    await made(api, CRDS, registration())
    await until_served(api, API_SERVICES)
    data = {**DATA, "requestheader-client-ca-file": front}
    await made(api, CONFIG_MAPS, {"metadata": {"name": CONFIG_MAP}, "data": data}, "kube-system")
    for one in APIS.values():
        await made(api, SECRETS, {"metadata": {"name": one.service}, "type": "Opaque"}, "default")
        for name in one.called.names:
            await made(api, API_SERVICES, {"metadata": {"name": name}, "spec": {"group": name.partition(".")[2]}})


async def until_served(api: Connection, kind: Kind) -> None:
    await until(lambda: served(api, kind))


async def fill_with_workloads(api: Connection) -> None:
    for body in crds_of(KUEUE):
        await made(api, CRDS, body)
    await until_served(api, kinds.WORKLOADS)
    await made(api, kinds.CLUSTER_QUEUES, cluster_queue("a", group(f={"cpu": 1})))
    await made(api, kinds.LOCAL_QUEUES, local_queue("l", "a"), "default")
    container = {"name": "c", "image": "i"}
    pods = [{"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}]
    for name, priority in (("one", 0), ("two", 5)):
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name}
        waits = workload(name, 1, podSets=pods, priority=priority)
        await made(
            api, kinds.WORKLOADS, {**waits, "metadata": {**waits["metadata"], "ownerReferences": [owner]}}, "default"
        )
    rule = {
        "apiGroups": ["visibility.kueue.x-k8s.io"],
        "resources": ["clusterqueues/pendingworkloads"],
        "verbs": ["get"],
    }
    await made(api, ROLES, {"metadata": {"name": "viewer"}, "rules": [rule]})
    subject = {"kind": "User", "name": "alice", "apiGroup": RBAC}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "viewer"}
    await made(api, BINDINGS, {"metadata": {"name": "viewer"}, "roleRef": role, "subjects": [subject]})


async def served(api: Connection, kind: Kind) -> bool:
    try:
        found = await api.request("GET", f"/apis/{kind.group}/{kind.version}")
    except ApiRefusal:
        return False
    return any(one["name"] == kind.plural for one in found["resources"])


async def asked(port: int, tls: Any, user: str, path: str = PENDING) -> tuple[int, Any]:
    headers = {"X-Remote-User": user, "X-Remote-Group": "system:authenticated"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session,
        session.get(f"https://127.0.0.1:{port}{path}", headers=headers) as answer,
    ):
        return answer.status, json.loads(await answer.read())


@asynccontextmanager
async def answering(api: Connection, one: ServedApi, front: Pair) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """Run the group's process; yield a function that asks it as an API server does, for a user."""
    async with visible(api, one, "default", ("127.0.0.1", 0)) as seen:
        keeping = asyncio.ensure_future(seen.keep())
        await until(lambda: not seen.wrong())
        bundles = {(await api.get(API_SERVICES, name))["spec"]["caBundle"] for name in one.called.names}
        assert bundles == {(await api.get(SECRETS, one.service, "default"))["data"]["ca.crt"]}
        (trusted,) = (base64.b64decode(each) for each in bundles)
        yield partial(asked, seen.port, client_of(front, trusted))
        keeping.cancel()


@pytest.fixture(scope="module")
def front() -> Pair:
    return make_authority("front", dt.datetime.now(dt.UTC), dt.timedelta(days=1))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, front: Pair) -> Iterator[ServerProcess]:
    async def prepare(kubeconfig: Path) -> None:
        async with await Connection.open(kubeconfig) as api:
            await prepared(api, front.certificate_pem.decode())

    with ServerProcess.started(tmp_path_factory.mktemp("server")) as found:
        asyncio.run(prepare(found.kubeconfig))
        yield found


@pytest.mark.slow
def test_who_may_sees_who_waits_by_what_the_api_server_tells(server: ServerProcess, front: Pair) -> None:
    async def scene() -> None:
        async with await Connection.open(server.kubeconfig) as api:
            await fill_with_workloads(api)
            async with answering(api, APIS["kueue"], front) as ask:
                code, found = await ask("alice")
                assert code == 200, found
                assert [one["metadata"]["ownerReferences"][0]["name"] for one in found["items"]] == ["two", "one"]
                code, refused = await ask("mallory")
                assert (code, refused["reason"]) == (403, "Forbidden")

    asyncio.run(scene())


# --- the numbers for every user ---------------------------------------------------------------------------------------


def waiting_job(user: str) -> dict[str, Any]:
    """Return a suspended job of the user with two pods, each of which needs a processor."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": "phalanx", "restartPolicy": "Never", "containers": [container]}}
    labels, notes = {"phalanx.dev/queue": "default"}, {"phalanx.dev/user": user}
    return {
        "metadata": {"name": f"{user}-trains", "labels": labels, "annotations": notes},
        "spec": {"suspend": True, "parallelism": 2, "completions": 2, "template": template},
    }


async def fill_with_jobs(api: Connection) -> None:
    """A job of each of two users waits, in a namespace each: the node is large enough for one. Bob may read about his
    namespace, and every user about queues, by the roles of the manifests."""
    await install(api)
    await api.create(NODES, node("n1", 2))
    await api.patch(NODES, "n1", {"spec": {"taints": None}})
    await api.patch(NODES, "n1", {"status": node("n1", 2)["status"]}, subresource="status")
    for user in ("ada", "bob"):
        await made(api, NAMESPACES, {"metadata": {"name": user}})
        await made(api, JOBS, waiting_job(user), user)
    for role in yaml.safe_load_all((DEPLOY / "components" / "numbers" / "roles.yaml").read_text()):
        await made(api, ROLES if role["kind"] == "ClusterRole" else BINDINGS, role)
    subject = {"kind": "User", "name": "bob", "apiGroup": RBAC}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "phalanx-job-numbers"}
    await made(api, BINDINGS_IN, {"metadata": {"name": "bob"}, "roleRef": role, "subjects": [subject]}, "bob")


def words_of(answer: Any) -> set[str]:
    return set(re.findall(r"[a-zA-Z0-9]+", json.dumps(answer)))


@pytest.mark.slow
def test_a_user_reads_numbers_of_his_jobs_and_of_queues_and_no_names(server: ServerProcess, front: Pair) -> None:
    def reason(namespace: str, name: str = "-") -> str:
        return f"/apis/visibility.phalanx.dev/v1/namespaces/{namespace}/jobs/{name}/reason"

    async def scene() -> None:
        async with await Connection.open(server.kubeconfig) as api:
            await fill_with_jobs(api)
            async with answering(api, APIS["phalanx"], front) as ask:
                code, found = await ask("bob", reason("bob", "bob-trains"))
                assert code == 200, found
                assert (found["position"], found["waiting"], found["ahead"]["jobs"]) == (2, 2, 1)
                assert (found["reason"]["code"], found["own"]["waiting"]["jobs"]) == ("NoRoom", 1)
                assert "ada" not in words_of(found)
                for user, path in (("bob", reason("ada")), ("ada", reason("ada", "ada-trains"))):
                    code, refused = await ask(user, path)
                    assert (code, refused["reason"]) == (403, "Forbidden"), refused
                code, queues = await ask("mallory", "/apis/visibility.phalanx.dev/v1/queues/-/summary")
                assert code == 200, queues
                (default,) = (one for one in queues["items"] if one["metadata"]["name"] == "default")
                assert (default["pending"], default["running"]) == (2, 0)
                assert not {"ada", "bob"} & words_of(queues)

    asyncio.run(scene())
