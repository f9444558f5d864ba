"""Find AMD GPUs, and the parts into which NVIDIA GPUs are divided. The driver amdkfd lists AMD GPUs; the node offers
them as the resource `amd.com/gpu`.

The driver lists the machine's processors below /sys/class/kfd/kfd/topology/nodes. An entry with SIMD units stands for a
GPU, and contains the number of the GPU's render file (/dev/dri/renderD128 …). Programs of ROCm open the render file and
/dev/kfd, which all GPUs share. The programs see the GPUs that ROCR_VISIBLE_DEVICES names (ROCm documentation, "GPU
isolation techniques"): by the unique id if the GPU has one, otherwise by the index. If AMD's device plugin registers,
its devices of this resource replace these GPUs.

NVIDIA's Multi-Instance GPUs (MIG) are divided into instances, each with its own memory and multiprocessors.

A GPU in MIG mode is not offered as a whole. Instead the node offers its instances, with one resource for each profile,
for example `nvidia.com/mig-1g.10gb`. The resources have the names that NVIDIA's device plugin gives them with the MIG
strategy "mixed". The node finds the instances once, at its start. To divide a GPU in another way, an administrator must
drain the node first, and restart the agent afterwards. CUDA_VISIBLE_DEVICES names the instance that a program uses.
Containers without an instance of a GPU can open neither the device file of the GPU nor the device files of its
instances (/dev/nvidia-caps, numbered in mig-minors). Containers with different instances of one GPU are separated only
by CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from phalanx.embedded.node.machine.devices.pool import DeviceFile, GrantedDevices, Ids
from phalanx.errors import PhalanxError

RESOURCE = "amd.com/gpu"
_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")
_SHARED_FILE = "/dev/kfd"


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdGpu:
    """A GPU of AMD. `index`: the number of the GPU among the machine's GPUs, as ROCm counts them. `unique_id`: the
    unique id of the GPU; "" if it has none."""

    index: int
    unique_id: str
    render_file: str

    @property
    def id(self) -> str:
        return f"GPU-{self.unique_id}" if self.unique_id else str(self.index)


def find_amd_gpus(topology: Path = _TOPOLOGY) -> tuple[AmdGpu, ...]:
    """Return the GPUs that the driver lists, in the driver's order; none if there is no driver."""
    places = [place for place in topology.iterdir() if place.name.isdigit()] if topology.is_dir() else []
    return tuple(_gpus(sorted(places, key=lambda place: int(place.name))))


def _gpus(places: Sequence[Path]) -> Iterator[AmdGpu]:
    index = 0
    for place in places:
        said = _properties(place / "properties")
        if said.get("simd_count", 0) == 0:
            continue  # this entry stands for a CPU, not for a GPU
        unique = said.get("unique_id", 0)
        render = f"/dev/dri/renderD{said.get('drm_render_minor', 0)}"
        yield AmdGpu(index=index, unique_id=f"{unique:016x}" if unique else "", render_file=render)
        index += 1


def _properties(path: Path) -> dict[str, int]:
    """Return name -> number from the lines of a file, such as `simd_count 304`; {} if the file cannot be read."""
    found = {}
    with suppress(OSError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if value.strip().isdigit():
                found[name] = int(value)
    return found


class AmdGpus:
    """The AMD GPUs, as a source of devices for the pool (`devices.pool`)."""

    def __init__(self, gpus: Sequence[AmdGpu]) -> None:
        self._gpus = {one.id: one for one in gpus}

    def ids(self) -> Ids:
        return tuple(self._gpus)

    def files(self) -> frozenset[str]:
        """Return the device files that only containers with a GPU may open."""
        return frozenset({_SHARED_FILE, *(one.render_file for one in self._gpus.values())})

    async def allocate(self, ids: Ids) -> GrantedDevices:
        """Return the device files and the environment variables for a container that gets these GPUs. Raises
        PhalanxError."""
        if unknown := [one for one in ids if one not in self._gpus]:
            raise PhalanxError(f"this machine has no GPU {', '.join(unknown)} any more")
        paths = (_SHARED_FILE, *(self._gpus[one].render_file for one in ids))
        files = tuple(DeviceFile(source=path, target=path) for path in paths)
        return GrantedDevices(env={"ROCR_VISIBLE_DEVICES": ",".join(ids)}, files=files)


_NVIDIA_SMI_S = 20.0
_GPU = re.compile(r"GPU (\d+): ")
# has lines such as `gpu0/gi1/ci0/access 12`: nvidia-cap12 is a device file of an instance of /dev/nvidia0
_MINORS = Path("/proc/driver/nvidia-caps/mig-minors")
_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[\w/-]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """An instance of a divided GPU. `uuid`: the name of the instance in CUDA_VISIBLE_DEVICES. `gpu`: the index of the
    GPU."""

    uuid: str
    profile: str
    gpu: str

    @property
    def resource(self) -> str:
        """Return the name of the resource. In this name, a `+` of the profile is written as a dot, as NVIDIA does."""
        return f"nvidia.com/mig-{self.profile.replace('+', '.')}"


def find_instances() -> tuple[MigInstance, ...]:
    """Return the instances that nvidia-smi lists; none if nvidia-smi is missing or fails."""
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_NVIDIA_SMI_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(_instances(answer.stdout.splitlines()))


def _instances(lines: Sequence[str]) -> Iterator[MigInstance]:
    gpu = ""
    for line in lines:
        if found := _GPU.match(line):
            gpu = found[1]
        elif found := _INSTANCE.match(line):
            yield MigInstance(uuid=found[2], profile=found[1], gpu=gpu)


def instance_files(gpu_file: str, minors: Path = _MINORS) -> tuple[str, ...]:
    """Return the device files of all instances of the GPU with the device file `gpu_file`."""
    found = []
    with suppress(OSError):
        for line in minors.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name.startswith(f"gpu{gpu_file.removeprefix('/dev/nvidia')}/") and number.strip().isdigit():
                found.append(f"/dev/nvidia-caps/nvidia-cap{number.strip()}")
    return tuple(found)


class MigInstances:
    """The instances of one profile, as a source of devices for the pool (`devices.pool`). `files`: index of a GPU ->
    the device files that programs open to use it."""

    def __init__(self, instances: Sequence[MigInstance], files: Mapping[str, tuple[str, ...]]) -> None:
        self._instances, self._files = {one.uuid: one for one in instances}, files

    def ids(self) -> Ids:
        return tuple(sorted(self._instances))

    async def allocate(self, ids: Ids) -> GrantedDevices:
        """Return the device files and the environment variables for a container that gets these instances. Raises
        PhalanxError."""
        if unknown := [one for one in ids if one not in self._instances]:
            raise PhalanxError(f"this machine has no MIG instance {', '.join(unknown)} any more")
        paths = dict.fromkeys(path for one in ids for path in self._files.get(self._instances[one].gpu, ()))
        env = {"CUDA_VISIBLE_DEVICES": ",".join(ids), "NVIDIA_VISIBLE_DEVICES": ",".join(ids)}
        return GrantedDevices(env=env, files=tuple(DeviceFile(source=path, target=path) for path in paths))
