"""Exclusive CPUs: the CPUs that containers get, and the CPUs on which real processes may then run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.kind import NODES
from phalanx.embedded.node.container.cgroup import Cgroups
from phalanx.embedded.node.machine.cpus import allot_cpus, exclusive_cpus, listed, machine_cpus
from phalanx.embedded.node.run import hardware
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until


def sized(name: str = "main", cpu: str = "1", *command: str) -> dict[str, Any]:
    return container(name, *command, resources={"limits": {"cpu": cpu, "memory": "64Mi"}})


@pytest.mark.parametrize(
    ("containers", "own"),
    [
        ([sized(cpu="2")], {"main": 2}),
        ([sized(cpu="1500m")], {}),
        ([sized(cpu="500m")], {}),
        ([container("main")], {}),
        ([sized("a", "1"), sized("b", "500m")], {"a": 1}),
        ([sized("a", "1"), container("b")], {}),  # a pod is Guaranteed as a whole
    ],
)
def test_whole_cpus_of_guaranteed_pods_are_their_own(containers: list[dict[str, Any]], own: dict[str, int]) -> None:
    assert exclusive_cpus({"containers": containers}) == own


def test_who_requests_less_than_the_limit_has_none() -> None:
    one = container("main", resources={"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}})
    assert exclusive_cpus({"containers": [one]}) == {}


def test_cores_are_given_whole_and_one_cpu_stays_everybodys() -> None:
    cores = ((0, 4, 1, 5, 2, 6),)  # in the order of machine_cpus: the threads of one core are neighbors
    spec = {"containers": [sized("a", "2"), sized("b", "1")]}
    assert allot_cpus(spec, cores, ()) == {"a": (0, 4), "b": (1,)}
    assert allot_cpus(spec, cores, (0, 4)) == {"a": (1, 5), "b": (2,)}
    with pytest.raises(LookupError, match=r"3, 2"):
        allot_cpus(spec, cores, (0, 4, 1))
    assert listed((5, 1)) == "1,5"


def test_a_container_keeps_to_one_numa_node_if_any_has_enough() -> None:
    nodes = ((0, 1, 2, 3), (4, 5, 6, 7))
    spec = {"containers": [sized("a", "3"), sized("b", "1")]}
    # the NUMA node with fewer free CPUs first, if they are enough
    assert allot_cpus(spec, nodes, (0,)) == {"a": (1, 2, 3), "b": (4,)}
    assert allot_cpus({"containers": [sized("a", "4")]}, nodes, (0,)) == {"a": (4, 5, 6, 7)}
    assert allot_cpus({"containers": [sized("a", "5")]}, nodes, (0,)) == {"a": (4, 5, 6, 7, 1)}


def test_the_kernel_tells_which_numa_node_a_cpu_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    for cpu, node, siblings in ((0, 1, "0,2"), (1, 0, "1,3"), (2, 1, "0,2"), (3, 0, "1,3")):
        (tmp_path / f"cpu{cpu}" / f"node{node}").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}" / "topology").mkdir()
        (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(f"{siblings}\n")
    assert machine_cpus(tmp_path) == ((1, 3), (0, 2))


@pytest.mark.slow
def test_others_make_way_and_get_them_back(api_server: ServerProcess) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one cpu cannot be divided")
    if "cpuset" not in Cgroups.of_this_process("phalanx-test", besides=("cpuset",)).enforced:
        pytest.skip("containers are kept to cpus by the cpuset controller, which this process cannot write here")

    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "1000"), name="before", terminationGracePeriodSeconds=0)
        await api.phase("Running", "before")
        await allowed(api, "before", cpus)
        await api.run(sized("main", "1", "sleep", "1000"), name="own", terminationGracePeriodSeconds=0)
        await api.phase("Running", "own")
        await allowed(api, "own", cpus[:1])
        await allowed(api, "before", cpus[1:])
        await api.run(sized("main", str(len(cpus)), "true"), name="more")
        pod = await api.phase("Failed", "more")
        assert "not enough cpus available to satisfy request" in pod["status"]["message"]
        await api.delete("own", gracePeriodSeconds=0)
        await allowed(api, "before", cpus)
        await api.delete("before", gracePeriodSeconds=0)

    async def allowed(api: Client, name: str, expected: list[int]) -> None:
        """Wait until the process of the pod may run on exactly these CPUs."""
        pod = await api.get(name)
        assert pod is not None
        folder = api_server.data / "pods" / pod["metadata"]["uid"] / "main"
        await until(lambda: sorted(os.sched_getaffinity(pid_of(folder))) == expected)

    scenario(api_server, test, static_cpus=True, resources={"cpu": str(len(cpus) + 2)})


@pytest.mark.slow
def test_without_cpuset_the_node_says_so(api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "Cgroups", _Without)

    async def test(api: Client) -> None:
        status = (await api.connection.get(NODES, api.node))["status"]
        found = {one["type"]: one["status"] for one in status["conditions"]}
        assert found["CpusStatic"] == "False"
        await api.run(sized("main", "1", "true"))
        await api.phase("Succeeded")

    scenario(api_server, test, static_cpus=True)


class _Without(Cgroups):
    @classmethod
    def of_this_process(cls, name: str, cpu_milli: int = 1000, besides: tuple[str, ...] = ()) -> Cgroups:  # noqa: ARG003 - as the replaced method
        return Cgroups.of_this_process(name, cpu_milli)


def pid_of(folder: Path) -> int:
    return int(json.loads((folder / "0.run.json").read_text())["pid"])
