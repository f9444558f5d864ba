"""A hostile user of a shared machine tries to get round the rules of admission: by versions, and beneath objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.policies import MUTATING, bound
from phalanx.embedded.apiserver.admission import service_addresses
from phalanx.embedded.apiserver.auth.authentication import write_tokens
from phalanx.embedded.apiserver.endpoints.reconcilers import quota_usage
from phalanx.embedded.apiserver.registry.crd.crd import has_condition
from phalanx.embedded.login.admission import CONTROL_PLANE, MASTERS, USERS, LoginAccount, token_for
from phalanx.embedded.login.grants import give_namespace, install_grants
from phalanx.embedded.login.quota import DEFAULT
from phalanx.kube.install.admission_policy import (
    USERS_POLICY,
    records_policies,
)
from tests.embedded.apiserver.inprocess import InProcess

pytestmark = pytest.mark.slow

Object = dict[str, Any]
BOB = LoginAccount(uid=51235, gid=51235, name="bob", groups=(USERS,))
ADA = LoginAccount(uid=51234, gid=51234, name="ada", groups=(USERS,))
HOME = "/api/v1/namespaces/user-ada"
PODS = f"{HOME}/pods"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KIND = "/apis/kubeflow.org/%s/namespaces/user-ada/pytorchjobs"
MERGE = "application/merge-patch+json"


class _Wire:
    """What `install_grants` asks of a connection, of the server in this process."""

    def __init__(self, server: InProcess) -> None:
        self._server = server

    async def create(self, kind: Any, obj: Object, namespace: str = "") -> Object:
        return await self._ask("POST", kind, obj, namespace)

    async def patch(self, kind: Any, name: str, obj: Object, namespace: str = "") -> Object:
        return await self._ask("PATCH", kind, obj, namespace, name)

    async def get(self, kind: Any, name: str, namespace: str = "") -> Object:
        return await self._ask("GET", kind, None, namespace, name)

    async def list(self, kind: Any, namespace: str = "") -> Object:
        return await self._ask("GET", kind, None, namespace)

    async def _ask(self, method: str, kind: Any, obj: Object | None, namespace: str, name: str = "") -> Object:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
        place = f"/namespaces/{namespace}" if namespace else ""
        media = MERGE if method == "PATCH" else "application/json"
        answer = await self._server.ask(method, f"{root}{place}/{kind.plural}{name and '/'}{name}", obj, media)
        if answer.code not in (200, 201):
            raise ApiRefusal(answer.code, answer.body["reason"], answer.body["message"])
        found: Object = answer.body
        return found


@asynccontextmanager
async def shared(data: Path, *accounts: LoginAccount) -> AsyncIterator[tuple[InProcess, ...]]:
    """A server as `up --shared` furnishes it: its admin, and these users, or ada."""
    tokens = data / "tokens.csv"
    write_tokens(tokens, [("admin", "admin", (MASTERS,)), (CONTROL_PLANE, CONTROL_PLANE, (MASTERS,))])
    users = {token_for(tokens, one): one for one in accounts or (ADA,)}
    async with InProcess.started(data) as admin:
        wire: Any = _Wire(admin)
        connection: Connection = wire
        await install_grants(connection, records_policies(CONTROL_PLANE, of_pods="Fail"))
        for one in users.values():
            await give_namespace(connection, one)
        yield admin, *(InProcess(admin.api, token) for token in users)


def pod(name: str = "p", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "host"}], **spec}}


def asking(cpu: str) -> Object:
    return pod(containers=[{"name": "main", "image": "host", "resources": {"requests": {"cpu": cpu}}}])


def definition() -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema, "subresources": {"status": {}}}
        for name in ("v1", "v1beta1")
    ]
    names = {"plural": "pytorchjobs", "kind": "PyTorchJob"}
    spec = {"group": "kubeflow.org", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "pytorchjobs.kubeflow.org"}, "spec": spec}


async def installed(admin: InProcess) -> None:
    for kind, body in ((MUTATING, USERS_POLICY), bound(MUTATING, USERS_POLICY["metadata"]["name"])):
        await admin.make(f"{ADMISSION}/{kind.plural}", body)
    await define(admin, definition())


async def define(admin: InProcess, body: Object) -> None:
    """Serve a kind of one's own."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await admin.make(definitions, body)
    stream = await admin.watch(f"{definitions}?watch=true&resourceVersion=0")
    while not has_condition((await stream.next())["object"], "Established"):
        pass
    await stream.close()


def test_whose_a_job_is_cannot_be_forged_by_another_version_of_its_kind(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, ada):
            await installed(admin)
            forged = {"labels": {"phalanx.dev/queue": "q"}, "annotations": {"phalanx.dev/user": "bob"}}
            for version in ("v1", "v1beta1"):
                body = {"apiVersion": f"kubeflow.org/{version}", "kind": "PyTorchJob"}
                made = await ada.make(
                    KIND % version, body | {"metadata": {"name": f"of-{version}", **forged}, "spec": {}}
                )
                assert made["metadata"]["annotations"]["phalanx.dev/user"] == "ada", version
                assert made["apiVersion"] == body["apiVersion"]
            change = {"metadata": {"annotations": {"phalanx.dev/user": "bob"}}}
            answer = await ada.ask("PATCH", f"{KIND % 'v1beta1'}/of-v1", change, MERGE)
            assert (answer.code, answer.body["metadata"]["annotations"]) == (200, {"phalanx.dev/user": "ada"})
            answer = await ada.ask("PATCH", f"{KIND % 'v1beta1'}/of-v1/status", change, MERGE)
            found = await admin.ask("GET", f"{KIND % 'v1'}/of-v1")
            assert found.body["metadata"]["annotations"] == {"phalanx.dev/user": "ada"}

    asyncio.run(run())


NOBODY = 'request.userInfo.username == "admin" && false'


def rule(*resources: str, operations: tuple[str, ...], group: str = "", version: str = "v1", **match: Any) -> Object:
    found = {"apiGroups": [group], "apiVersions": [version], "operations": list(operations)}
    return {"resourceRules": [found | {"resources": list(resources)}], **match}


async def forbid(admin: InProcess, name: str, match: Object, expression: str = NOBODY) -> None:
    spec = {"matchConstraints": match, "validations": [{"expression": expression, "message": f"{name} says no"}]}
    await admin.make(f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    bound = {"policyName": name, "validationActions": ["Deny"]}
    await admin.make(f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": bound})


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
LATE = {"spec": {"ephemeralContainers": [{"name": "late", "image": "host"}]}}
MORE = asking("2")
STRATEGIC = "application/strategic-merge-patch+json"
SCALES = rule("deployments/scale", operations=("*",), group="apps")
FAILED = {"status": {"phase": "Failed"}}
REPLICAS = {"spec": {"replicas": 3}}
DEPLOYMENTS = "/apis/apps/v1/namespaces/user-ada/deployments"


@pytest.mark.parametrize(
    ("match", "method", "path", "body", "media"),
    [
        (rule("pods/status", operations=("UPDATE",)), "PATCH", f"{PODS}/p/status", FAILED, MERGE),
        (rule("pods/*", operations=("UPDATE",)), "PATCH", f"{PODS}/p/ephemeralcontainers", LATE, STRATEGIC),
        (rule("*/resize", operations=("*",)), "PATCH", f"{PODS}/p/resize", MORE, STRATEGIC),
        (rule("pods/binding", operations=("CREATE",)), "POST", f"{PODS}/p/binding", BINDING, "application/json"),
        (rule("bindings", operations=("CREATE",)), "POST", f"{HOME}/bindings", BINDING, "application/json"),
        (rule("pods/eviction", operations=("CREATE",)), "POST", f"{PODS}/p/eviction", EVICTION, "application/json"),
        (rule("pods/exec", operations=("CONNECT",)), "GET", f"{PODS}/p/exec?command=sh&stdin=true", None, MERGE),
        (rule("pods/proxy", operations=("CONNECT",)), "GET", f"{PODS}/p/proxy/", None, MERGE),
        (rule("pods", operations=("DELETE",)), "DELETE", f"{PODS}/p", None, MERGE),
        (rule("pods", operations=("DELETE",)), "DELETE", PODS, None, MERGE),
        (SCALES, "PATCH", f"{DEPLOYMENTS}/d/scale", REPLICAS, MERGE),
        (SCALES, "PUT", f"{DEPLOYMENTS}/d/scale", REPLICAS, MERGE),
    ],
)  # fmt: skip
def test_a_policy_sees_what_is_written_beneath_an_object(
    tmp_path: Path, match: Object, method: str, path: str, body: Any, media: str
) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, _):
            await admin.make("/api/v1/nodes", {"metadata": {"name": "n"}})
            template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
            spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
            await admin.make(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
            await admin.make(PODS, asking("1"))
            await forbid(admin, "guard", match)
            whole = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d"}, **REPLICAS}
            sent, form = (whole, "application/json") if method == "PUT" else (body, media)
            answer = await admin.ask(method, path, sent, form)
            assert (answer.code, "guard says no" in answer.body["message"]) == (422, True), answer.body
            found = (await admin.ask("GET", f"{PODS}/p")).body
            assert "deletionTimestamp" not in found["metadata"]
            assert "nodeName" not in found["spec"]

    asyncio.run(run())


def test_a_policy_is_about_every_version_unless_it_says_exact(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, _):
            await installed(admin)
            match = rule("pytorchjobs", operations=("CREATE",), group="kubeflow.org")
            seen = (
                'object.apiVersion != "kubeflow.org/v1" || request.kind.version != "v1" || '
                'request.requestKind.version != "v1beta1" || request.resource.version != "v1"'
            )
            await forbid(admin, "every", match, seen)
            body = {"apiVersion": "kubeflow.org/v1beta1", "kind": "PyTorchJob", "metadata": {"name": "x"}}
            answer = await admin.ask("POST", KIND % "v1beta1", body)
            assert (answer.code, "every says no" in answer.body["message"]) == (422, True)
            await admin.ask("DELETE", f"{ADMISSION}/validatingadmissionpolicies/every")
            await forbid(admin, "exact", match | {"matchPolicy": "Exact"}, "false")
            assert (await admin.ask("POST", KIND % "v1beta1", body)).code == 201
            answer = await admin.ask("POST", KIND % "v1", body | {"apiVersion": "kubeflow.org/v1"})
            assert (answer.code, "exact says no" in answer.body["message"]) == (422, True)

    asyncio.run(run())


def test_events_are_seen_in_the_shape_that_a_rule_names(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, _):
            match = rule("events", operations=("CREATE",), group="events.k8s.io")
            await forbid(admin, "noted", match, '!has(object.note) || object.note != "secret"')
            core = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "user-ada"}, "message": "secret"}
            answer = await admin.ask("POST", f"{HOME}/events", core)
            assert (answer.code, "noted says no" in answer.body["message"]) == (422, True)
            assert (await admin.ask("POST", f"{HOME}/events", core | {"message": "plain"})).code == 201

    asyncio.run(run())


def test_a_debug_container_changes_nothing_else_of_its_pod_and_keeps_to_pod_security(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, _):
            await admin.make(PODS, pod())
            patch = {"metadata": {"annotations": {"phalanx.dev/admitted": "me"}, "labels": {"a": "b"}}, **LATE}
            answer = await admin.ask("PATCH", f"{PODS}/p/ephemeralcontainers", patch, STRATEGIC)
            assert answer.code == 200
            assert not {"annotations", "labels"} & answer.body["metadata"].keys()
            label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
            await admin.ask("PATCH", "/api/v1/namespaces/user-ada", label, MERGE)
            root = {"name": "root", "image": "host", "securityContext": {"privileged": True}}
            more = {"spec": {"ephemeralContainers": [root]}}
            answer = await admin.ask("PATCH", f"{PODS}/p/ephemeralcontainers", more, STRATEGIC)
            assert (answer.code, "violates PodSecurity" in answer.body["message"]) == (403, True)

    asyncio.run(run())


def test_a_pod_that_grows_is_held_to_its_quota(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, _):
            await admin.make(PODS, asking("1"))
            quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1500m"}}}
            await admin.make(f"{HOME}/resourcequotas", quota)
            answer = await admin.ask("PATCH", f"{PODS}/p/resize", MORE, STRATEGIC)
            assert (answer.code, "exceeded quota" in answer.body["message"]) == (403, True)
            assert (await admin.ask("PATCH", f"{PODS}/p/resize", asking("500m"), STRATEGIC)).code == 200

    asyncio.run(run())


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "u"}


@pytest.mark.parametrize(("field", "value"), [("immutable", True), ("ownerReferences", [OWNER])])
def test_who_may_raise_the_number_of_jobs_cannot_spoil_it(tmp_path: Path, field: str, value: Any) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, ada):
            rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
            where_said = {"resources": ["configmaps"], "resourceNames": ["phalanx-slurm-number"]}
            rule = {"apiGroups": [""], "verbs": ["update"], **where_said}
            await admin.make(f"{rbac}/roles", {"metadata": {"name": "raise"}, "rules": [rule]})
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "raise"}
            subject = {"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}
            bound = {"metadata": {"name": "raise"}, "roleRef": reference, "subjects": [subject]}
            await admin.make(f"{rbac}/rolebindings", bound)
            place = "/api/v1/namespaces/kube-system/configmaps/phalanx-slurm-number"
            raised = {**(await ada.ask("GET", place)).body, "data": {"next": "9"}}
            where = {field: value} if field == "immutable" else {"metadata": raised["metadata"] | {field: value}}
            answer = await ada.ask("PUT", place, raised | where)
            assert (answer.code, "only its data may be changed" in answer.body["message"]) == (403, True)
            assert (await ada.ask("PUT", place, raised)).code == 200

    asyncio.run(run())


def test_nobody_writes_the_schedulers_records_on_jobs(tmp_path: Path) -> None:
    async def act() -> None:
        async with shared(tmp_path) as (_, ada):
            meta = {"name": "j", "annotations": {"phalanx.dev/parallelism": "5 of 8"}}
            template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
            answer = await ada.ask(
                "POST", "/apis/batch/v1/namespaces/user-ada/jobs", {"metadata": meta, "spec": {"template": template}}
            )
            assert (answer.code, "only the scheduler may write" in answer.body["message"]) == (422, True)

    asyncio.run(act())


# --- how much ---------------------------------------------------------------------------------------------------------


def test_one_user_does_not_take_all_node_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def service(name: str) -> Object:
        return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}

    async def act() -> None:
        async with shared(tmp_path, ADA, BOB) as (_, ada, bob):
            answers = [await ada.ask("POST", f"{HOME}/services", service(f"s{number}")) for number in range(21)]
            assert [answer.code for answer in answers] == [201] * 20 + [403]
            assert "services.nodeports=20" in answers[-1].body["message"]
            monkeypatch.setattr(service_addresses, "NODE_PORTS", range(30000, 30020))
            answer = await bob.ask("POST", "/api/v1/namespaces/user-bob/services", service("s"))
            assert (answer.code, "nodePort: range is full" in answer.body["message"]) == (422, True)

    asyncio.run(act())


def test_what_is_used_of_a_quota_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_usage, "_PAUSE_S", 0.0)

    async def act() -> None:
        async with shared(tmp_path) as (_, ada):
            watch = await ada.watch(f"{HOME}/resourcequotas?watch=true")
            await ada.make(f"{HOME}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
            while True:
                status = (await watch.next())["object"].get("status") or {}
                if (status.get("used") or {}).get("services") == "1":
                    break
            assert status["hard"] == DEFAULT
            assert status["used"]["count/events"] == "0"
            assert int(status["used"]["phalanx.dev/objects"]) > 3
            await watch.close()

    asyncio.run(act())


def classes(*names: str) -> Object:
    return {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": list(names)}]}


def test_system_priorities_are_for_kube_system(tmp_path: Path) -> None:
    """As ResourceQuota's limitedResources holds it: an admin opens another namespace by a quota for these classes."""

    async def run() -> None:
        async with shared(tmp_path) as (admin, ada):
            for name in ("system-node-critical", "system-cluster-critical"):
                for who in (ada, admin):
                    answer = await who.ask("POST", f"{HOME.replace('user-ada', 'default')}/pods", pod(name))
                    critical = pod(f"p-{name}", priorityClassName=name)
                    place = PODS if who is ada else "/api/v1/namespaces/default/pods"
                    answer = await who.ask("POST", place, critical)
                    assert answer.code == 403, answer.body
                await admin.make("/api/v1/namespaces/kube-system/pods", pod(name, priorityClassName=name))
            quota = {"hard": {"pods": "5"}, "scopeSelector": classes("system-node-critical")}
            await admin.make("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "q"}, "spec": quota})
            there = "/api/v1/namespaces/default/pods"
            await admin.make(there, pod("allowed", priorityClassName="system-node-critical"))
            answer = await admin.ask("POST", there, pod("other", priorityClassName="system-cluster-critical"))
            assert "insufficient quota to match these scopes" in answer.body["message"]
            answer = await ada.ask("POST", f"{HOME}/resourcequotas", {"metadata": {"name": "q"}, "spec": quota})
            assert answer.code == 403

    asyncio.run(run())


def templates(name: str) -> dict[str, tuple[str, Object]]:
    """Objects of many kinds that name a priority class, wherever their kind has it."""
    spec = pod()["spec"] | {"priorityClassName": name, "restartPolicy": "Never"}
    always = spec | {"restartPolicy": "Always"}
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": always}
    meta = {"name": "high"}
    return {
        "pod": (PODS, {"metadata": meta, "spec": spec}),
        "job": (f"/apis/batch/v1{HOME[7:]}/jobs", {"metadata": meta, "spec": {"template": {"spec": spec}}}),
        "cronjob": (
            f"/apis/batch/v1{HOME[7:]}/cronjobs",
            {
                "metadata": meta,
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": spec}}}},
            },
        ),
        "deployment": (
            f"/apis/apps/v1{HOME[7:]}/deployments",
            {"metadata": meta, "spec": {"selector": {"matchLabels": labels}, "template": template}},
        ),
        "framework": (
            KIND % "v1",
            {
                "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta,
                "spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": spec}}}},
            },
        ),
        "a label of Kueue": (
            KIND % "v1",
            {
                "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
                "metadata": {"name": "kueue", "labels": {"kueue.x-k8s.io/priority-class": name}}, "spec": {},
            },
        ),
        "a framework's policy": (
            KIND % "v1",
            {
                "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "policy"},
                "spec": {"runPolicy": {"schedulingPolicy": {"priorityClass": name}}},
            },
        ),
    }  # fmt: skip


@pytest.mark.parametrize("kind", templates(""))
def test_no_template_asks_for_more_than_the_cap(tmp_path: Path, kind: str) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, ada):
            await define(admin, definition())
            priorities = "/apis/scheduling.k8s.io/v1/priorityclasses"
            for name, value in (("low", 10), ("high", 5000)):
                await admin.make(priorities, {"metadata": {"name": name}, "value": value})
            path, body = templates("system-node-critical")[kind]
            answer = await ada.ask("POST", path, body)
            assert (answer.code, "phalanx.dev/max-priority" in answer.body["message"]) == (403, True), answer.body
            cap = {"metadata": {"annotations": {"phalanx.dev/max-priority": "100"}}}
            await admin.ask("PATCH", HOME, cap, MERGE)
            answer = await ada.ask("POST", path, templates("high")[kind][1])
            assert (answer.code, "may use 100 at most" in answer.body["message"]) == (403, True), answer.body
            _, low = templates("low")[kind]
            made = await ada.make(path, low)
            assert (await ada.ask("PATCH", HOME, cap, MERGE)).code == 403
            place = f"{path}/{made['metadata']['name']}"
            if kind not in {"pod", "job"}:  # their templates are immutable
                change = {key: templates("high")[kind][1][key] for key in ("spec", "metadata")}
                change["metadata"].pop("name")
                assert (await ada.ask("PATCH", place, change, MERGE)).code == 403
            assert (await ada.ask("PATCH", place, {"metadata": {"labels": {"a": "b"}}}, MERGE)).code == 200

    asyncio.run(run())
