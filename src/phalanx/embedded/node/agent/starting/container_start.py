"""One start of a container, and the parts of its run spec that need files: the root, the mounts, and the process of the
target container.

`run_spec` puts these parts into the run spec."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phalanx.client.connection import Object
from phalanx.embedded.node.agent.starting.root import resolver, root_of
from phalanx.embedded.node.container.attempt import Mount, Process, Root, RunningAttempt, attempts
from phalanx.embedded.node.container.image import Image
from phalanx.embedded.node.container.isolation import ROOT_PREFIX
from phalanx.embedded.node.machine.devices.pool import GrantedDevices
from phalanx.embedded.node.machine.owners import MachineOwner
from phalanx.embedded.node.machine.surroundings import VOLUMES, Surroundings
from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.environment import EnvironmentFault
from phalanx.embedded.node.pod.record import PodRecord

_HOSTS = "/etc/hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStart:
    """A start of a container. `pod`: its pod, with addresses. `spec`: the container's part of the pod's spec. `number`:
    the number of the attempt. `owner`: the Unix user to whom the pod's namespace belongs; None if the machine is not
    shared."""

    pod: Object
    spec: Object
    number: int
    image: Image
    record: PodRecord
    around: Surroundings
    owner: MachineOwner | None

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def folder(self) -> Path:
        """Return the folder of the pod."""
        return self.around.pod_dir(self.record.uid)


async def image_root(start: ContainerStart, own: Sequence[str], granted: GrantedDevices) -> Root:
    """Create the root directory with the files of the image, and return it. `own`: the device files of the container's
    GPUs."""
    place = start.folder / VOLUMES / f"{ROOT_PREFIX}{start.name}-{start.number}"
    files = (*((path, path) for path in own), *((one.source, one.target) for one in granted.files))
    return await asyncio.to_thread(root_of, start.image, place, start.around.isolation, start.spec, start.pod, files)


def target_process(start: ContainerStart) -> Process | None:
    """Return the process of an ephemeral container's target container, whose PID namespace the ephemeral container
    joins. Return None without a target. Raises EnvironmentFault."""
    name = start.spec.get("targetContainerName")
    if not name:
        return None
    found = attempts(start.folder / name)
    state = found[-1].settle() if found else None
    if not isinstance(state, RunningAttempt):
        raise EnvironmentFault(f'target container "{name}" does not run')
    return Process(pid=state.pid, start=state.pid_start) if found[-1].spec.own_processes else None


def container_mounts(start: ContainerStart, asked: Mapping[str, str], granted: GrantedDevices) -> tuple[Mount, ...]:
    """Return the mounts of the container. Raises EnvironmentFault, OSError."""
    around, pod, image, owner, root = start.around, start.pod, start.image, start.owner, start.folder / VOLUMES
    # a container with an image as its root has these files in its own /dev
    files = () if image.layers else granted.files
    moved = tuple(Mount(source=one.source, target=one.target) for one in files if one.source != one.target)
    mounts = (*image.paths, *granted.mounts, *moved, *volumes.mounts(start.spec, pod, root, asked))
    if owner is not None:
        volumes.check_paths_of_machine(pod)
        if not image.layers:
            mounts = (*volumes.private_folders(root, owner.user, owner.group, mounts), *mounts)
    if mounts and around.isolation.refusal:
        raise EnvironmentFault(
            f"container {start.name} mounts volumes or paths of its image, and this node cannot mount "
            f"({around.isolation.refusal}). Start the node agent as root, or use paths of this machine instead"
        )
    if not around.isolation.refusal and not any(mount.target == _HOSTS for mount in mounts):
        mounts = (*mounts, Mount(source=str(around.naming.hosts(pod)), target=_HOSTS))
    return (*mounts, *resolver(mounts)) if image.layers else mounts
