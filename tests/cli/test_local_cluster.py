"""`cli/local/local_cluster.py`: the options of `phalanx up` for its machines, and the order of its processes."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App

from phalanx.cli.local import local_cluster
from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.local_cluster import LocalMachines, free_port, keep_logs_s, require_free, running
from phalanx.errors import PhalanxError


def parsed(*words: str) -> LocalMachines:
    """The options as the control plane reads them from its command line."""
    app = App()
    found: list[LocalMachines] = []

    @app.default
    def control_plane(*, machines: LocalMachines | None = None) -> None:
        found.append(machines or LocalMachines())

    app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    return found[0]


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A value other than the default for every option."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(local_cluster, "require_rdma", lambda cards, *, enforced: None)
    (tmp_path / "images.yaml").write_text("images: {}\n")
    (tmp_path / "devices.yaml").write_text("resources: {}\n")
    groups = "nodeGroups:\n- {name: rack, provider: {exec: {command: [/bin/true]}}, allocatable: {cpu: 8}}\n"
    (tmp_path / "groups.yaml").write_text(groups)
    return {
        "local_node": False,
        "local_cpu": "500m",
        "local_memory": "16Gi",
        "local_gpu": 0,
        "local_images": tmp_path / "images.yaml",
        "local_default_memory": "0",
        "keep_logs": "0",
        "keep_logs_for": "12h",
        "static_cpus": True,
        "device_plugins": tmp_path / "plugins",
        "local_devices": tmp_path / "devices.yaml",
        "local_rdma": "hca_handle=64,hca_object=8192",
        "shared": True,
        "local_open_network": True,
        "login_socket": tmp_path / "my login.sock",
        "user_quota": "phalanx.dev/objects=50k,pods=100",
        "user_max_priority": -5,
        "simulate_nodes": 3,
        "node_cpu": "7",
        "node_memory": "1Gi",
        "node_gpu": 8,
        "node_pods": 1,
        "node_group": ("spot=0x8gpu,max=2,price=2.5", "big=1,max=2"),
        "node_groups": tmp_path / "groups.yaml",
        "kinds": "ray,spark",
    }


@pytest.mark.slow
def test_the_control_plane_reads_the_options_that_up_was_given(changed: dict[str, Any]) -> None:
    assert changed.keys() == {each.name for each in fields(LocalMachines)}, "add the new option"
    default = LocalMachines()
    for name, value in changed.items():
        machines = LocalMachines(**{name: value})
        assert getattr(machines, name) != getattr(default, name), name
        assert parsed(*machines.options()) == machines, name
    together = LocalMachines(**changed)
    assert parsed(*together.options()) == together


def test_without_options_the_control_plane_has_the_defaults() -> None:
    assert parsed(*LocalMachines().options()) == LocalMachines()


@pytest.mark.parametrize("name", ["local_images", "device_plugins", "local_devices", "node_groups"])
def test_a_relative_path_stays_the_same_file(
    name: str, changed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = LocalMachines(**{name: Path(changed[name].name)}).options()
    monkeypatch.chdir("/")
    assert getattr(parsed(*words), name) == changed[name]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"local_cpu": "0"}, r"--local-cpu '0': the amount must be more than 0\. Nothing was started"),
        ({"local_cpu": "-1"}, "--local-cpu '-1': the amount must be more than 0"),
        ({"local_memory": "much"}, r"--local-memory .*much.*Nothing was started"),
        ({"node_cpu": ""}, "--node-cpu "),
        ({"node_memory": "1 Gi"}, "--node-memory "),
        ({"local_default_memory": "0Mi"}, "--local-default-memory '0Mi': the amount must be more than 0"),
        ({"keep_logs": "-1Gi"}, "--keep-logs '-1Gi'"),
        ({"keep_logs_for": "-1d"}, "--keep-logs-for '-1d': write for example 12h or 30d"),
        ({"keep_logs_for": "ever"}, "--keep-logs-for 'ever'"),
        ({"local_images": Path("/none")}, "/none"),
        ({"local_devices": Path("/none")}, "/none"),
        ({"local_rdma": "handles"}, "handles"),
        ({"user_quota": "pods=many"}, "many"),
        ({"kinds": "ray,cobol"}, "cobol"),
        ({"node_group": ("spot",)}, "spot"),
        ({"node_groups": Path("/none")}, "/none"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_invalid_option_is_refused_before_anything_starts(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PhalanxError, match=complaint):
        LocalMachines(**options)


@pytest.mark.parametrize(("text", "seconds"), [("12h", 43200.0), ("30d", 2592000.0), ("0s", 0.0)])
def test_logs_are_kept_for_a_time(text: str, seconds: float) -> None:
    assert keep_logs_s(LocalMachines(keep_logs_for=text)) == seconds


def test_only_root_shares_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PhalanxError, match=r"--shared needs root.*Nothing was started"):
        LocalMachines(shared=True)


def test_a_port_in_use_is_refused_with_the_command_that_names_its_program() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PhalanxError, match=rf"127\.0\.0\.1:{port}: .*`ss -ltnp 'sport = :{port}'`"):
            require_free(port)
    require_free(port)
    require_free(0)
    require_free(free_port())


def test_a_low_port_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, where: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(PhalanxError, match="Only root may use a port below 1024, or use --port with another number"):
        require_free(443)


class Program:
    """A child whose start and end are recorded. `fails`: the name of the program that cannot start."""

    said = "ready https://127.0.0.1:6443"
    events: list[str]
    fails = ""

    def __init__(self, program: Any, tell: Any) -> None:
        self.program, self._stopped = program, False

    async def start(self) -> None:
        await asyncio.sleep(0)
        if self.program.name == Program.fails:
            raise PhalanxError(f"{self.program.name} cannot start")
        Program.events.append(f"start {self.program.name}")

    async def keep(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            Program.events.append(f"stop {self.program.name}")


API, PLANE, COMMANDS = "API server", "control plane", "service of Slurm's commands"


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(local_cluster, "Child", Program)
    monkeypatch.setattr(Program, "fails", "")
    monkeypatch.setattr(Program, "events", [], raising=False)
    return Program.events


def test_the_server_starts_first_and_stops_after_the_control_plane(tmp_path: Path, events: list[str]) -> None:
    async def play() -> None:
        async with running(DataDirectory(tmp_path), 0, LocalMachines(), print) as cluster:
            assert cluster.url == "https://127.0.0.1:6443"
            events.append("ready")

    asyncio.run(play())
    ours = [event for event in events if COMMANDS not in event]
    assert ours == [f"start {API}", f"start {PLANE}", "ready", f"stop {PLANE}", f"stop {API}"]
    assert events[-1] == f"stop {COMMANDS}"


def test_the_control_plane_can_be_stopped_before_the_rest(tmp_path: Path, events: list[str]) -> None:
    async def play() -> None:
        async with running(DataDirectory(tmp_path), 0, LocalMachines(), print) as cluster:
            await cluster.stop_control_plane()
            events.append("drained")

    asyncio.run(play())
    assert events.index(f"stop {PLANE}") < events.index("drained") < events.index(f"stop {API}")
    assert events.count(f"stop {PLANE}") == 1


@pytest.mark.parametrize("fails", [API, PLANE])
def test_a_part_that_cannot_start_ends_the_others(tmp_path: Path, events: list[str], fails: str) -> None:
    Program.fails = fails

    async def play() -> None:
        async with running(DataDirectory(tmp_path), 0, LocalMachines(), print):
            pytest.fail("the cluster is not ready")

    with pytest.raises(PhalanxError, match=f"{fails} cannot start"):
        asyncio.run(play())
    assert {f"stop {API}", f"stop {PLANE}", f"stop {COMMANDS}"} <= set(events)
    require_free(0)
    asyncio.run(_owned_again(tmp_path))


async def _owned_again(folder: Path) -> None:
    Program.fails = ""
    async with running(DataDirectory(folder), 0, LocalMachines(), print):
        pass


def test_the_cluster_works_without_the_service_of_slurms_commands(tmp_path: Path, events: list[str]) -> None:
    Program.fails = COMMANDS
    told: list[str] = []

    async def play() -> None:
        async with running(DataDirectory(tmp_path), 0, LocalMachines(), told.append):
            await asyncio.sleep(0)

    asyncio.run(play())
    assert f"start {PLANE}" in events
    assert [text for text in told if "so the commands take longer" in text]


def test_a_path_that_is_too_long_for_a_socket_starts_no_service(tmp_path: Path, events: list[str]) -> None:
    folder = tmp_path / ("d" * 100)
    folder.mkdir()
    told: list[str] = []

    async def play() -> None:
        async with running(DataDirectory(folder), 0, LocalMachines(), told.append):
            await asyncio.sleep(0)

    asyncio.run(play())
    assert f"start {COMMANDS}" not in events
    assert told == []


def test_a_port_in_use_starts_nothing(tmp_path: Path, events: list[str]) -> None:
    async def play(port: int) -> None:
        async with running(DataDirectory(tmp_path), port, LocalMachines(), print):
            pytest.fail("the port is in use")

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PhalanxError, match="cannot listen"):
            asyncio.run(play(other.getsockname()[1]))
    assert events == []


def test_the_programs_get_their_options(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    server = local_cluster._api_server(directory, 7443, accept_loss=True)
    assert server.argv[-7:] == ("--data", str(tmp_path), "--host", "127.0.0.1", "--port", "7443", "--accept-loss")
    assert "--accept-loss" not in local_cluster._api_server(directory, 7443, accept_loss=False).argv
    plane = local_cluster._control_plane(directory, LocalMachines(simulate_nodes=2), ("--policy=/p",))
    assert "--simulate-nodes=2" in plane.argv
    assert plane.argv[-1] == "--policy=/p"
    with suppress(PhalanxError):  # not root
        shared = local_cluster._slurm_commands(directory, LocalMachines(shared=True, login_socket=Path("/run/x/l")))
        assert Path(shared.argv[-1]).parent == Path("/run/x")
    assert Path(local_cluster._slurm_commands(directory, LocalMachines()).argv[-1]).parent == tmp_path
