"""`cli/local/control_plane`: what the options of `phalanx up` become in the parts beside the scheduler."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.local import local_cluster
from phalanx.cli.local.control_plane import companions, controllers, login_server, node_agents
from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES
from tests.kube.double import node

Settings = dict[str, Any]


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function: options -> the settings of each part that is run."""
    (tmp_path / "ca.crt").write_text("PEM")
    monkeypatch.setattr(DataDirectory, "authority", property(lambda self: tmp_path / "ca.crt"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(local_cluster, "require_rdma", lambda cards, *, enforced: None)
    found: Settings = {}

    def run(name: str) -> Any:
        return lambda connection, *more: found.update({name: more[-1]}) or name

    for module, name in (
        (controllers, "run_controllers"),
        (node_agents, "run_node"),
        (login_server, "run_login"),
        (node_agents, "run_simulated_nodes"),
        (companions, "say_ready"),
    ):
        monkeypatch.setattr(module, name, run(name))

    def of(**options: Any) -> Settings:
        found.clear()
        nothing: Any = SimpleNamespace()
        list(companions.companions(nothing, nothing, DataDirectory(tmp_path), LocalMachines(**options)))
        del found["say_ready"]
        return dict(found)

    return of


def test_without_options_this_machine_is_a_node_and_nobody_logs_in(parts: Any, tmp_path: Path) -> None:
    found = parts()
    assert found.keys() == {"run_controllers", "run_node", "run_simulated_nodes"}
    own = found["run_node"]
    assert (own.data_dir, dict(own.resources), own.shared, own.fenced) == (tmp_path, {}, False, False)
    assert (own.kept_log_bytes, own.kept_log_s, own.default_memory_bytes) == (256 << 20, 30 * 86400.0, None)
    assert found["run_controllers"].root_ca == "PEM"
    assert found["run_controllers"].volumes_dir == tmp_path / "volumes"
    assert found["run_simulated_nodes"].nodes == 0


def test_without_a_local_node_there_are_no_volumes_on_this_machine(parts: Any) -> None:
    found = parts(local_node=False, simulate_nodes=5, node_cpu="7", node_memory="1Gi", node_gpu=2, node_pods=9)
    assert "run_node" not in found
    assert found["run_controllers"].volumes_dir is None
    simulated = found["run_simulated_nodes"]
    assert (simulated.nodes, simulated.cpu, simulated.memory, simulated.gpu, simulated.pods) == (5, "7", "1Gi", 2, 9)


def test_amounts_of_the_node(parts: Any) -> None:
    logs: Settings = {"keep_logs": "0", "keep_logs_for": "12h"}
    devices: Settings = {"local_gpu": 0, "static_cpus": True, "local_rdma": "hca_handle=64,hca_object=8192"}
    own = parts(local_cpu="500m", local_memory="16Gi", local_default_memory="1Gi", **logs, **devices)["run_node"]
    assert dict(own.resources) == {"cpu": "500m", "memory": "16Gi", "nvidia.com/gpu": "0"}
    assert (own.default_memory_bytes, own.kept_log_bytes, own.kept_log_s) == (1 << 30, 0, 43200.0)
    assert own.static_cpus is True
    assert own.rdma
    assert parts(local_default_memory="0")["run_node"].default_memory_bytes == 0


def test_a_shared_machine_has_a_login_and_fences_its_users(parts: Any, tmp_path: Path) -> None:
    found = parts(shared=True, login_socket=tmp_path / "login.sock", user_quota="pods=7", user_max_priority=3)
    assert (found["run_node"].shared, found["run_node"].fenced) == (True, True)
    login = found["run_login"]
    assert (login.socket, login.max_priority) == (tmp_path / "login.sock", 3)
    assert "pods" in str(login.quota)
    assert login.quota != parts(shared=True)["run_login"].quota
    assert parts(shared=True, local_open_network=True)["run_node"].fenced is False


def test_ready_is_said_once_all_nodes_are_ready(capsys: pytest.CaptureFixture[str]) -> None:
    cache = Informer(SimpleNamespace(), NODES)  # type: ignore[arg-type]  # it is not run

    async def play() -> None:
        informers: Any = lambda kind: cache  # noqa: E731 (it stands for the caches of all kinds)
        machines = LocalMachines(local_node=False, simulate_nodes=1)
        said = asyncio.create_task(node_agents.say_ready(informers, machines))
        for version, (name, ready) in enumerate((("a", "False"), ("b", "False"), ("a", "True")), 1):
            await asyncio.sleep(0)
            assert capsys.readouterr().out == ""
            made = node(name)
            made["status"]["conditions"][0]["status"] = ready
            made["metadata"] |= {"uid": name, "resourceVersion": str(version)}
            cache.observe(made)
        await said

    asyncio.run(play())
    assert capsys.readouterr().out == "ready\n"
