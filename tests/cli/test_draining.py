"""`cli/local/draining.py`: the pods that are processes of this machine, and how they end."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.cli.local import draining
from phalanx.cli.local.draining import cordon, drain, is_simulated, running_pods, uncordon
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.dialects.job_kinds.replica_types import TRAINING
from phalanx.kube.read.labels import ADMITTED
from tests.kube.double import Api, Client, Controller, Object, job, node, pod

PYTORCH = next(each.kind for each in TRAINING if each.kind.name == "PyTorchJob")


class Machine(Client):
    """A cluster whose Job controller runs whenever pods are listed."""

    def __init__(self, api: Api, fault: Callable[[str], str | None] = lambda write: None) -> None:
        super().__init__(api, fault)
        self.controller = Controller(api)

    async def list(self, kind: Any, namespace: str = "", **selectors: str) -> Object:
        found = await super().list(kind, namespace, **selectors)
        if kind is PODS:
            self.controller.turn()
        return found


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_LOOK_S", 0.0)


@pytest.fixture
def api() -> Api:
    found = Api()
    found.put(NODES, node("here"))
    found.put(NODES, node("other"))
    simulated = node("simulated")
    simulated["metadata"]["labels"] = {"phalanx.dev/simulated": "true"}
    found.put(NODES, simulated)
    return found


def runs(made: Object, on: str = "here") -> Object:
    made["spec"]["nodeName"] = on
    made["status"] = {"phase": "Running"}
    return made


def names(pods: list[Object]) -> list[str]:
    return [one["metadata"]["name"] for one in pods]


def unschedulable(api: Api) -> dict[str, Any]:
    return {name: (one.get("spec") or {}).get("unschedulable") for name, one in api.objects[NODES].items()}


@pytest.mark.parametrize(
    ("labels", "simulated"),
    [
        ({"phalanx.dev/simulated": "true"}, True),
        ({"phalanx.dev/simulated": "True"}, True),
        ({"phalanx.dev/simulated": "false"}, False),
        ({"phalanx.dev/simulated": ""}, False),
        ({}, False),
        (None, False),
    ],
)
def test_simulated_nodes_have_a_label(labels: Any, simulated: bool) -> None:
    assert is_simulated({"metadata": {"name": "n", "labels": labels}}) is simulated


def test_running_pods_are_those_with_a_process_here(api: Api) -> None:
    api.put(PODS, runs(pod("process")))
    api.put(PODS, runs(pod("simulated"), on="simulated"))
    api.put(PODS, runs(pod("of-no-node"), on="gone"))
    api.put(PODS, pod("waits"))
    for phase in ("Succeeded", "Failed"):
        api.put(PODS, {**runs(pod(phase.lower())), "status": {"phase": phase}})
    api.put(PODS, {**runs(pod("bound")), "status": {}})  # its process may start at any moment
    assert names(asyncio.run(running_pods(Client(api)))) == ["process", "bound"]


def test_only_nodes_that_phalanx_cordoned_are_uncordoned(api: Api) -> None:
    before = copy.deepcopy(api.objects[NODES]["here"])
    api.put(NODES, {**node("other"), "spec": {"unschedulable": True}})  # by its user
    for _ in range(2):  # the second one after a `phalanx up` that was killed between both
        asyncio.run(cordon(Client(api), ["here", "other"]))
    assert unschedulable(api) == {"here": True, "other": True, "simulated": None}
    asyncio.run(uncordon(Client(api)))
    assert unschedulable(api) == {"here": None, "other": True, "simulated": None}
    left = api.objects[NODES]["here"]["metadata"]
    assert (left.get("annotations") or {}) == (before["metadata"].get("annotations") or {})


def started(api: Api, name: str, pods: int) -> None:
    """A Job of this many running pods."""
    made = api.put(JOBS, job(name, pods))
    made["spec"]["suspend"] = False
    made["metadata"]["annotations"] = {ADMITTED: "[]"}
    api.put(JOBS, made)
    controller = Controller(api)
    while len(api.pods(name)) < pods:
        controller.turn()
    for one in api.pods(name):
        api.put(PODS, runs(one))


def drained(machine: Client) -> tuple[int, list[str]]:
    told: list[str] = []
    return asyncio.run(drain(machine, told.append)), told


def test_jobs_return_to_their_queue_and_other_pods_are_deleted(api: Api) -> None:
    started(api, "train", 2)
    api.put(PODS, runs(pod("alone")))
    api.put(PODS, runs(pod("far"), on="simulated"))
    ended, told = drained(Machine(api))
    assert ended == 3
    assert told == []
    assert names(api.pods()) == ["far"]
    assert api.job("train")["spec"]["suspend"] is True
    assert ADMITTED not in api.job("train")["metadata"]["annotations"]


def test_nodes_are_cordoned_before_pods_end_and_stay_so(api: Api) -> None:
    started(api, "train", 1)
    drained(Machine(api))
    assert api.writes[:2] == ["patch nodes/here", "patch jobs/train"]
    assert unschedulable(api) == {"here": True, "other": None, "simulated": None}


@pytest.mark.parametrize("write", ["patch nodes/here", "patch jobs/train"])
@pytest.mark.parametrize("node", ["here", "other"])
def test_a_pod_that_is_bound_meanwhile_ends_and_counts(api: Api, write: str, node: str) -> None:
    """Also behind the cordon: the scheduler may have decided before."""
    started(api, "train", 1)
    machine = Machine(api)

    def then(done: str) -> None:
        if done == write:
            api.put(PODS, runs(pod("late"), on=node))

    machine.fault = then
    assert drained(machine) == (2, [])
    assert names(api.pods()) == []
    assert unschedulable(api)[node] is True


def test_a_pod_that_is_left_does_not_count(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_PATIENCE_S", 0.0)
    api.put(PODS, runs(pod("alone")))
    machine = Machine(api)

    def then(done: str) -> None:
        if done.startswith("delete"):
            api.put(PODS, runs(pod("late")))

    machine.fault = then
    assert drained(machine) == (1, ["1 pod is still ending after 0 s: late"])


def test_a_job_is_suspended_once_for_all_its_pods(api: Api) -> None:
    started(api, "train", 3)
    drained(Machine(api))
    assert api.writes.count("patch jobs/train") == 1


def test_a_training_job_is_suspended_in_place_of_its_pods(api: Api) -> None:
    meta = {"name": "torch", "namespace": "default", "uid": "t", "annotations": {ADMITTED: "[]"}}
    api.put(PYTORCH, {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.name, "metadata": meta, "spec": {}})
    made = runs(pod("torch-worker-0"))
    owner = {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.name, "name": "torch", "uid": "t", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    api.put(PODS, made)
    machine = Machine(api)
    machine.controller.collects = False

    def then(write: str) -> None:
        if write == f"patch {PYTORCH.plural}/torch":  # its operator deletes the pods of a suspended job
            api.drop(PODS, "default/torch-worker-0")

    machine.fault = then
    assert drained(machine)[0] == 1
    assert api.objects[PYTORCH]["default/torch"]["spec"] == {"runPolicy": {"suspend": True}}
    assert not any(write.startswith("delete") for write in api.writes)


def test_pods_that_do_not_end_are_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_PATIENCE_S", 0.0)
    for name in ("a", "b"):
        api.put(PODS, runs(pod(name)))
    machine = Machine(api, lambda write: None)

    async def delete(*_: Any) -> Object:
        return {}

    monkeypatch.setattr(machine, "delete", delete)
    assert drained(machine) == (0, ["2 pods are still ending after 0 s: a, b"])
    api.drop(PODS, "default/b")
    assert drained(machine) == (0, ["1 pod is still ending after 0 s: a"])


@pytest.mark.parametrize("code", [404, 409])
def test_a_pod_that_another_program_deletes_is_no_error(api: Api, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    api.put(PODS, runs(pod("a")))
    machine = Machine(api)

    async def delete(*_: Any) -> Object:
        api.drop(PODS, "default/a")
        raise ApiRefusal(code, "", "")

    monkeypatch.setattr(machine, "delete", delete)
    assert drained(machine)[0] == 1


def test_an_error_of_the_server_is_passed_on(api: Api) -> None:
    started(api, "train", 1)
    with pytest.raises(ApiRefusal, match="no"):
        drained(Machine(api, lambda write: "no" if write.startswith("patch jobs") else None))


def test_a_machine_without_pods_is_left_alone(api: Api) -> None:
    assert drained(Machine(api)) == (0, [])
    assert api.writes == []
