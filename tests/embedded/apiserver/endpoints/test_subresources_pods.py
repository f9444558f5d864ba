"""`endpoints/subresources/pods.py`: the binding of a pod to a node, and its eviction, as kube-apiserver does both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import InProcess, Scene, played

SPACE = "/api/v1/namespaces/default"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def server_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Scene], None]]:
    with played(tmp_path_factory.mktemp("api")) as play:
        yield play


@pytest.fixture
def play(server_of_all: Callable[[Scene], None]) -> Iterator[Callable[[Scene], None]]:
    """Each test begins without pods, nodes and budgets."""
    yield server_of_all
    server_of_all(emptied)


async def emptied(server: InProcess) -> None:
    for path in (f"{SPACE}/pods", BUDGETS, "/api/v1/nodes"):
        for one in (await server.ask("GET", path)).body["items"]:
            kept = {"metadata": {"finalizers": None}}
            await server.ask("PATCH", f"{path}/{one['metadata']['name']}", kept, MERGE)
            await server.ask("DELETE", f"{path}/{one['metadata']['name']}?gracePeriodSeconds=0")


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "labels": {"app": "a", ZONE: "from-the-user"}}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def binding(node: str = "n1", kind: str = "Node", **meta: Any) -> dict[str, Any]:
    target = {"name": node, **({"kind": kind} if kind else {})}
    return {"metadata": {"name": "p", **meta}, "target": target}


def node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/" + key: text for key, text in labels.items()}}
    }


async def bind(server: InProcess, body: dict[str, Any], query: str = "") -> tuple[int, str]:
    answer = await server.ask("POST", f"{SPACE}/pods/p/binding{query}", body)
    return answer.code, answer.body.get("message", "")


async def evict(server: InProcess, body: dict[str, Any] | None = None, query: str = "") -> tuple[int, str]:
    answer = await server.ask("POST", f"{SPACE}/pods/p/eviction{query}", {"metadata": {"name": "p"}} | (body or {}))
    return answer.code, answer.body.get("message", "")


async def read(server: InProcess) -> Any:
    return (await server.ask("GET", f"{SPACE}/pods/p")).body


def test_a_binding_sets_the_node_the_condition_and_the_annotations(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        made = await server.make(f"{SPACE}/pods", pod())
        assert await bind(server, binding(annotations={"a": "b"})) == (201, "")
        bound = await read(server)
        assert bound["spec"] == made["spec"] | {"nodeName": "n1"}
        assert bound["metadata"]["annotations"] == {"a": "b"}
        [condition] = bound["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")

    play(scene)


def test_a_bound_pod_has_the_region_and_the_zone_of_its_node(play: Callable[[Scene], None]) -> None:
    """PodTopologyLabels: the downward API of a program shows the zone in which it runs. The labels of the node replace
    those of the user, and no other label of the node is copied."""

    async def scene(server: InProcess) -> None:
        await server.make("/api/v1/nodes", node("n1", zone="a", region="north", rack="7"))
        await server.make(f"{SPACE}/pods", pod())
        assert (await bind(server, binding(labels={"by": "the scheduler"})))[0] == 201
        labels = (await read(server))["metadata"]["labels"]
        assert labels == {"app": "a", "by": "the scheduler", ZONE: "a", REGION: "north"}
        direct = await server.make(f"{SPACE}/pods", pod("direct", nodeName="n1"))
        assert direct["metadata"]["labels"] == {"app": "a", ZONE: "a", REGION: "north"}

    play(scene)


@pytest.mark.parametrize(("kind", "named"), [("Node", "gone"), ("", "n1")])
def test_no_label_is_copied_without_a_node_object(play: Callable[[Scene], None], kind: str, named: str) -> None:
    async def scene(server: InProcess) -> None:
        await server.make("/api/v1/nodes", node("n1", zone="a"))
        await server.make(f"{SPACE}/pods", pod())
        assert (await bind(server, binding(named, kind)))[0] == 201
        assert (await read(server))["metadata"]["labels"] == pod()["metadata"]["labels"]

    play(scene)


def test_a_binding_may_name_the_version_of_the_pod_that_it_was_decided_on(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        version = (await server.make(f"{SPACE}/pods", pod()))["metadata"]["resourceVersion"]
        patched = await server.ask("PATCH", f"{SPACE}/pods/p", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        code, message = await bind(server, binding(resourceVersion=version))
        now = patched.body["metadata"]["resourceVersion"]
        assert code == 409
        assert message.startswith('Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4')
        assert message.endswith(f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {now}")
        assert (await bind(server, binding(resourceVersion=now)))[0] == 201

    play(scene)


def test_a_dry_run_checks_a_binding_and_writes_nothing(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        made = await server.make(f"{SPACE}/pods", pod())
        assert await bind(server, binding(), "?dryRun=All") == (201, "")
        assert await read(server) == made
        code, message = await bind(server, binding(uid="another"), "?dryRun=All")
        assert code == 409
        assert "UID in precondition: another" in message

    play(scene)


def test_pods_that_are_gated_or_being_deleted_get_no_node(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await server.make(f"{SPACE}/pods", pod(schedulingGates=[{"name": "g"}]))
        assert await bind(server, binding()) == (
            409,
            'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates',
        )
        held = {"metadata": {"finalizers": ["x.org/f"]}, "spec": {"schedulingGates": None}}
        await server.ask("PATCH", f"{SPACE}/pods/p", held, MERGE)
        await server.ask("DELETE", f"{SPACE}/pods/p")
        assert await bind(server, binding()) == (
            409,
            'Operation cannot be fulfilled on pods/binding "p": pod p is being deleted, cannot be assigned to a host',
        )

    play(scene)


def test_a_binding_can_be_created_in_its_collection(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await server.make(f"{SPACE}/pods", pod())
        assert (await server.ask("POST", f"{SPACE}/bindings", binding("n2"))).code == 201
        assert (await read(server))["spec"]["nodeName"] == "n2"

    play(scene)


def test_an_evicted_pod_terminates_with_the_reason_in_its_status(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await server.make(f"{SPACE}/pods", pod(nodeName="n1"))
        assert await evict(server) == (201, "")
        left = await read(server)
        assert left["metadata"]["deletionGracePeriodSeconds"] == 30
        [condition] = [one for one in left["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")

    play(scene)


def test_a_pod_without_node_is_gone_after_its_eviction(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        await server.make(f"{SPACE}/pods", pod())
        assert await evict(server, {"apiVersion": "policy/v1beta1"}) == (201, "")
        assert (await server.ask("GET", f"{SPACE}/pods/p")).code == 404

    play(scene)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"metadata": {"name": "q"}}, 400, "name in URL does not match name in Eviction object"),
        ({"deleteOptions": {"preconditions": {"uid": "another"}}}, 409, "the UID in the precondition (another)"),
        ({"deleteOptions": {"preconditions": {"resourceVersion": "1"}}}, 409, "the ResourceVersion in the preconditio"),
    ],
)
def test_an_eviction_of_another_pod_is_refused(
    play: Callable[[Scene], None], body: dict[str, Any], code: int, message: str
) -> None:
    async def scene(server: InProcess) -> None:
        made = await server.make(f"{SPACE}/pods", pod(nodeName="n1"))
        found, text = await evict(server, body)
        assert found == code
        assert message in text
        assert await read(server) == made

    play(scene)


@pytest.mark.parametrize("how", ["the query", "the body"])
def test_a_dry_run_of_an_eviction_writes_nothing(play: Callable[[Scene], None], how: str) -> None:
    async def scene(server: InProcess) -> None:
        made = await server.make(f"{SPACE}/pods", pod(nodeName="n1"))
        body = {"deleteOptions": {"dryRun": ["All"]}} if how == "the body" else {}
        assert await evict(server, body, "?dryRun=All" if how == "the query" else "") == (201, "")
        assert await read(server) == made

    play(scene)


def test_a_budget_allows_as_many_evictions_as_its_status_says(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
        await server.make(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1}
        status = {"status": {**counts, "observedGeneration": 1}}
        await server.ask("PATCH", f"{BUDGETS}/b/status", status, MERGE)
        for name in ("p", "q"):
            await server.make(f"{SPACE}/pods", pod(name, nodeName="n1"))
            ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            await server.ask("PATCH", f"{SPACE}/pods/{name}/status", ready, MERGE)
        assert await evict(server) == (201, "")
        budget = (await server.ask("GET", f"{BUDGETS}/b")).body["status"]
        assert budget["disruptionsAllowed"] == 0
        assert list(budget["disruptedPods"]) == ["p"]
        second = await server.ask("POST", f"{SPACE}/pods/q/eviction", {"metadata": {"name": "q"}})
        assert second.code == 429
        assert second.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
        assert "deletionTimestamp" not in (await server.ask("GET", f"{SPACE}/pods/q")).body["metadata"]

    play(scene)
