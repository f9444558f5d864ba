"""Read the capacity, the GPUs and the names of the machine, once at the start of the agent."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from phalanx import __version__
from phalanx.embedded.node.pod.admission import GPU

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # the API uses Go's names of architectures
HUGE_PAGES = {"hugepages-1Gi": 1 << 20, "hugepages-2Mi": 2 << 10}
_NVIDIA_SMI_S = 20.0
# The files that programs open on every NVIDIA GPU, in addition to the GPU's own file.
SHARED_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
KUBERNETES = "v1.36.2"  # the version whose kubelet this node imitates


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU of NVIDIA. `index`: the number of the GPU in CUDA_VISIBLE_DEVICES. `uuid`, `device_file`: the GPU's uuid,
    and the file that its users open; both are "" for a simulated GPU."""

    index: str
    uuid: str = ""
    product: str = ""
    memory_mib: int = 0
    device_file: str = ""


def host_name() -> str:
    """Return the host name as a valid node name: lower case letters, digits, '-' and '.'."""
    name = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in socket.gethostname().lower())
    return name.strip("-.") or "localhost"


def capacity(data_dir: Path, gpus: tuple[Gpu, ...], max_pods: int, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the resources that the node offers, as quantities. `overrides`: amounts that replace those of the
    machine."""
    memory_kib = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0])
    pages = huge_pages()
    # Huge pages are reserved, so ordinary memory does not include them.
    memory_kib -= sum(count * size_kib for size_kib, count in pages.items())
    found = {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory_kib}Ki",
        "ephemeral-storage": f"{shutil.disk_usage(data_dir).total // 1024}Ki",
        "pods": str(max_pods),
        **{name: str(pages.get(size_kib, 0) * size_kib * 1024) for name, size_kib in HUGE_PAGES.items()},
    }
    if gpus:
        found[GPU] = str(len(gpus))
    return found | dict(overrides)


def huge_pages(folder: Path = Path("/sys/kernel/mm/hugepages")) -> dict[int, int]:
    """Return page size in KiB -> the number of huge pages of this size that the machine has reserved."""
    found = {}
    for place in folder.glob("hugepages-*kB"):
        count = _text(str(place / "nr_hugepages"))
        if count.isdigit():
            found[int(place.name.removeprefix("hugepages-").removesuffix("kB"))] = int(count)
    return found


def find_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that nvidia-smi lists; empty if nvidia-smi is missing or fails."""
    fields = "index,uuid,name,memory.total,pci.bus_id"
    try:
        answer = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_NVIDIA_SMI_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(_gpu(line) for line in answer.stdout.splitlines() if line.count(",") == 4)


def _gpu(line: str) -> Gpu:
    index, uuid, product, memory, bus = (part.strip() for part in line.split(","))
    return Gpu(
        index=index,
        uuid=uuid,
        product=product,
        memory_mib=int(memory) if memory.isdigit() else 0,
        device_file=_device_file(bus),
    )


def _device_file(bus: str) -> str:
    """Return the device file of the GPU in a PCI slot. The file name has the driver's number of the GPU. Return "" if
    the number is unknown."""
    domain, _, rest = bus.lower().partition(":")
    text = _text(f"/proc/driver/nvidia/gpus/{domain[-4:]}:{rest}/information")
    minor = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("Device Minor")), "")
    return f"/dev/nvidia{minor}" if minor.isdigit() else ""


def node_info() -> dict[str, str]:
    machine = _ARCHITECTURES.get(platform.machine(), platform.machine())
    return {
        "architecture": machine,
        "bootID": _text("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": f"phalanx://{__version__}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": KUBERNETES,
        "machineID": _text("/etc/machine-id"),
        "operatingSystem": "linux",
        "osImage": _os_image(),
        "systemUUID": _text("/sys/class/dmi/id/product_uuid") or _text("/etc/machine-id"),
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_image() -> str:
    for line in _text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "Linux"
