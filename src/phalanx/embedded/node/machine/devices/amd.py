"""AMD's GPUs: found by what their driver (amdkfd) tells, offered as `amd.com/gpu`.

The driver lists what can compute below /sys/class/kfd/kfd/topology/nodes: a node with SIMD units is a GPU, and has the
number of its render file (/dev/dri/renderD128 …). Programs of ROCm open that and /dev/kfd, which all GPUs share, and
see the GPUs that ROCR_VISIBLE_DEVICES names (ROCm documentation, "GPU isolation techniques"): by unique id where they
have one, else by index. If AMD's device plugin registers, its devices of that resource take the place of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """A GPU of AMD. `index`: its number among the machine's GPUs, as ROCm counts them. `unique_id`: "" if the GPU has
    none."""

    index: int
    unique_id: str
    render_file: str

    @property
    def id(self) -> str:
        return f"GPU-{self.unique_id}" if self.unique_id else str(self.index)


def find_amd_gpus(topology: Path = _TOPOLOGY) -> tuple[AmdGpu, ...]:
    """Return the GPUs that the driver lists, in its order; nothing where there is no driver."""
    places = [place for place in topology.iterdir() if place.name.isdigit()] if topology.is_dir() else []
    return tuple(_gpus(sorted(places, key=lambda place: int(place.name))))


def _gpus(places: Sequence[Path]) -> Iterator[AmdGpu]:
    index = 0
    for place in places:
        said = _properties(place / "properties")
        if said.get("simd_count", 0) == 0:
            continue  # a processor
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
    """The GPUs, as a source of the pool."""

    def __init__(self, gpus: Sequence[AmdGpu]) -> None:
        self._gpus = {one.id: one for one in gpus}

    def ids(self) -> Ids:
        return tuple(self._gpus)

    def files(self) -> frozenset[str]:
        """Return the device files that only containers with a GPU may open."""
        return frozenset({_SHARED_FILE, *(one.render_file for one in self._gpus.values())})

    async def allocate(self, ids: Ids) -> GrantedDevices:
        """Return what a container with these GPUs is given. Raises PhalanxError."""
        if unknown := [one for one in ids if one not in self._gpus]:
            raise PhalanxError(f"this machine has no GPU {', '.join(unknown)} any more")
        paths = (_SHARED_FILE, *(self._gpus[one].render_file for one in ids))
        files = tuple(DeviceFile(source=path, target=path) for path in paths)
        return GrantedDevices(env={"ROCR_VISIBLE_DEVICES": ",".join(ids)}, files=files)
