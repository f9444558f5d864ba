"""`phalanx visibility` beside a real server: its Workloads, its rights, its Secret and APIServices, over real TLS."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from phalanx.aggregation.front_proxy import CONFIG_MAP
from phalanx.cli.commands.in_cluster.visibility import API_SERVICES, CALLED, SERVICE, visible
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import CONFIG_MAPS, CRDS, SECRETS, Kind
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.embedded.apiserver.auth.authority import make_authority
from phalanx.kube.install.dialects import crds_of
from tests.aggregation.test_front_proxy import DATA
from tests.aggregation.test_serving import PENDING, client_of
from tests.dialects.kueue.test_pending import workload
from tests.dialects.kueue.written import cluster_queue, group, local_queue
from tests.embedded.apiserver.process import ServerProcess

RBAC = "rbac.authorization.k8s.io"
ROLES = Kind(group=RBAC, plural="clusterroles", name="ClusterRole", namespaced=False)
BINDINGS = Kind(group=RBAC, plural="clusterrolebindings", name="ClusterRoleBinding", namespaced=False)


def registration() -> dict[str, Any]:
    """The kind APIService, which the embedded server has not: nobody aggregates there."""
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
    meta = {key: obj["metadata"][key] for key in ("name", "annotations", "ownerReferences") if key in obj["metadata"]}
    await api.create(kind, {**obj, "apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}, namespace)


async def filled(api: Connection, front: str) -> None:
    for body in (*crds_of(KUEUE), registration()):
        await made(api, CRDS, body)
    for kind in (kinds.WORKLOADS, API_SERVICES):
        async with asyncio.timeout(120):
            while not await served(api, kind):  # noqa: ASYNC110 (the server is waited for)
                await asyncio.sleep(0.05)
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
    await made(
        api,
        CONFIG_MAPS,
        {"metadata": {"name": CONFIG_MAP}, "data": {**DATA, "requestheader-client-ca-file": front}},
        "kube-system",
    )
    await made(api, SECRETS, {"metadata": {"name": SERVICE}, "type": "Opaque"}, "default")
    for name in CALLED.names:
        await made(api, API_SERVICES, {"metadata": {"name": name}, "spec": {"group": name.partition(".")[2]}})
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


async def asked(port: int, tls: Any, user: str) -> tuple[int, Any]:
    connector = aiohttp.TCPConnector(ssl=tls)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(f"https://127.0.0.1:{port}{PENDING}", headers={"X-Remote-User": user}) as answer,
    ):
        return answer.status, json.loads(await answer.read())


@pytest.mark.slow
def test_who_may_sees_who_waits_by_what_the_api_server_tells(tmp_path: Path) -> None:
    front = make_authority("front", dt.datetime.now(dt.UTC), dt.timedelta(days=1))

    async def scene(server: ServerProcess) -> None:
        async with await Connection.open(server.kubeconfig) as api:
            await filled(api, front.certificate_pem.decode())
            async with visible(api, "default", ("127.0.0.1", 0)) as seen:
                keeping = asyncio.ensure_future(seen.keep())
                async with asyncio.timeout(120):
                    while seen.wrong():  # noqa: ASYNC110 (the server is waited for)
                        await asyncio.sleep(0.02)
                bundles = [(await api.get(API_SERVICES, name))["spec"]["caBundle"] for name in CALLED.names]
                assert len(bundles) == 2
                assert len(set(bundles)) == 1
                secret = await api.get(SECRETS, SERVICE, "default")
                assert secret["data"]["ca.crt"] == bundles[0]
                (trusted,) = (base64.b64decode(one) for one in set(bundles))
                tls = client_of(front, trusted)
                code, found = await asked(seen.port, tls, "alice")
                assert code == 200, found
                assert [one["metadata"]["ownerReferences"][0]["name"] for one in found["items"]] == ["two", "one"]
                code, refused = await asked(seen.port, tls, "mallory")
                assert (code, refused["reason"]) == (403, "Forbidden")
                keeping.cancel()

    with ServerProcess.started(tmp_path) as server:
        asyncio.run(scene(server))
