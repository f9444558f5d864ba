"""`agent/starting/run_spec.py`: what a container's process gets, from the pod, its image and the node."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.agent.starting.container_start import ContainerStart
from phalanx.embedded.node.agent.starting.run_spec import fenced, run_spec
from phalanx.embedded.node.container.attempt import Mount, RunSpec
from phalanx.embedded.node.container.cgroup import CgroupLimits, ControlGroup
from phalanx.embedded.node.container.image import Image
from phalanx.embedded.node.container.isolation import Isolation
from phalanx.embedded.node.machine.devices.pool import GrantedDevices
from phalanx.embedded.node.machine.owners import MachineOwner
from phalanx.embedded.node.network.fence import Fenced
from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.environment import EnvironmentFault
from phalanx.embedded.node.pod.record import PodRecord
from tests.embedded.node.objects import Object, container, pod

RECORD = PodRecord(uid="u", namespace="default", name="p", pod_ip="10.0.0.7", start_time="")
ALICE = MachineOwner(user=1000, group=1000, groups=(44,), name="alice", home="/home/alice")
MIB = 1 << 20


class Node:
    """The surroundings of a pod on a node without devices. `made`: the limits of each group that was created."""

    gpus = ()
    has_gpus = False
    fence = None
    settings = SimpleNamespace(address="127.0.0.1", default_memory_bytes=64 * MIB, rdma={})
    connection = None
    rdma_cards = ()
    naming = SimpleNamespace(hosts=lambda pod: "/state/hosts")

    def __init__(self, folder: Path, refusal: str = "") -> None:
        self.allocatable, self.shared_cpus = {"memory": "1Gi"}, {2, 3}
        self.folder, self.isolation = folder, Isolation(refusal=refusal)
        self.made: list[tuple[CgroupLimits, CgroupLimits]] = []
        self.cgroups = self.devices = self

    async def grant(self, named: Any) -> GrantedDevices:
        return GrantedDevices(env={"CARD": "0"})

    def device_files(self, gpus: Any) -> tuple[str, ...]:
        return ()

    def others_files(self, own: Any) -> tuple[str, ...]:
        return ("/dev/other",)

    def create(self, pod: str, name: str, limits: CgroupLimits, whole: CgroupLimits) -> ControlGroup:
        self.made.append((limits, whole))
        return ControlGroup(dirs=(f"/sys/fs/cgroup/{pod}/{name}",))

    def variables(self, *, own_root: bool) -> dict[str, str]:
        return {"PATH": "/bin", "HOME": "/root"}

    def pod_dir(self, uid: str) -> Path:
        return self.folder / uid


@pytest.fixture(autouse=True)
def _no_private_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a user's pod no folders of its own: only root may change their owner."""
    monkeypatch.setattr(volumes, "private_folders", lambda *about: ())


def started(
    node: Any, shown: Object, name: str = "main", image: Image | None = None, owner: MachineOwner | None = None
) -> RunSpec:
    """Return the run spec of the container `name` of this pod."""
    spec = shown["spec"]
    found = next(one for one in (*spec["containers"], *spec.get("ephemeralContainers", ())) if one["name"] == name)
    return asyncio.run(
        run_spec(
            ContainerStart(
                pod=shown, spec=found, number=1, image=image or Image(), record=RECORD, around=node, owner=owner
            )
        )
    )


def test_the_spec_of_the_container_wins_over_the_image_and_the_node(tmp_path: Path) -> None:
    main = container("main", "serve", env=[{"name": "PATH", "value": "/opt"}])
    image = Image(env={"PATH": "/usr/bin", "LANG": "C"}, cwd="/srv")
    found = started(Node(tmp_path), pod(main), image=image)
    assert found.argv == ("serve",)
    assert found.cwd == "/srv"
    assert found.env == {"PATH": "/opt", "HOME": "/root", "LANG": "C", "HOSTNAME": "p", "CARD": "0"}
    assert found.mounts == (Mount(source="/state/hosts", target="/etc/hosts"),)
    assert found.cgroup_dirs == ("/sys/fs/cgroup/u/main-1",)


def test_the_limits_name_the_shared_cpus_and_the_files_of_others(tmp_path: Path) -> None:
    node = Node(tmp_path)
    found = started(node, pod())
    [(limits, whole)] = node.made
    assert limits == CgroupLimits(memory_limit_bytes=64 * MIB, cpus="2,3", others_files=("/dev/other",))
    assert whole == CgroupLimits()
    assert (found.memory_limit_bytes, found.confined) == (64 * MIB, False)


def test_an_ephemeral_container_shares_the_memory_limit_of_its_pod(tmp_path: Path) -> None:
    node, debug = Node(tmp_path), container("debug", "sh")
    assert started(node, pod(ephemeralContainers=[debug]), "debug").memory_limit_bytes == 0
    [(limits, whole)] = node.made
    assert (limits.memory_limit_bytes, whole.memory_limit_bytes) == (None, 64 * MIB)


def test_a_container_of_a_user_runs_as_this_user_with_few_processes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    found = started(node, pod(), owner=ALICE)
    assert (found.user, found.group, found.groups, found.confined) == (1000, 1000, (44,), True)
    assert (found.env["USER"], found.env["HOME"]) == ("alice", "/home/alice")
    assert node.made[0][0].pids_limit == 8192


def test_another_user_than_the_owner_of_the_namespace_is_refused(tmp_path: Path) -> None:
    for context, said in (
        ({"runAsUser": 0}, "are not those of namespace default"),
        ({"privileged": True}, "privileged containers are refused"),
    ):
        with pytest.raises(EnvironmentFault, match=said):
            started(Node(tmp_path), pod(container(securityContext=context)), owner=ALICE)


def test_a_pod_with_the_address_of_the_node_is_fenced_without_an_address(tmp_path: Path) -> None:
    node: Any = Node(tmp_path)
    assert fenced(RECORD, node, 1000) == Fenced(user=1000, address="10.0.0.7")
    assert fenced(replace(RECORD, pod_ip="127.0.0.1"), node, 1000) == Fenced(user=1000, address="")
