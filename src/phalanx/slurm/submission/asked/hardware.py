"""What nodes a job may have, and whether they can ever give what it asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from phalanx.slurm.cluster.site import Partition
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.nodes import Node
from phalanx.slurm.options import Usage

FAILED = "sbatch: error: Batch job submission failed: "
CONFIGURATION = "Requested node configuration is not available"
_COUNT = re.compile(r"\*\d+$")


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the partition's largest node (CPUs, MiB, GPUs), and the number of nodes. `names`, `features`: the
    names and features of all nodes; empty if unknown. `each`: the nodes of the partition if known; `every`: the nodes
    of the cluster. `disk_mib`: the largest TmpDisk, if slurm.conf describes the nodes."""

    names: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    cpus: int = 1
    memory_mib: int = 1
    gpus: int = 0
    nodes: int = 1
    each: tuple[Node, ...] = ()
    disk_mib: int | None = None
    every: tuple[Node, ...] = ()


def fails(text: str) -> Usage:
    return Usage(FAILED + text)


def choices(text: str) -> Iterator[list[str]]:
    """Yield the alternatives of `a&b|c`, `[a|b]`, `a*2`. An alternative is a list of features that a node must all
    have."""
    for choice in text.replace(",", "&").replace("[", "").replace("]", "").replace("(", "").replace(")", "").split("|"):
        if names := [_COUNT.sub("", name) for name in choice.split("&") if name]:
            yield names


def require_features(ask: Ask, hardware: Hardware) -> None:
    """Raise Usage if no node has one of the requested features."""
    if not hardware.names:
        return
    if {name for choice in choices(ask.features) for name in choice} - hardware.features:
        raise fails("Invalid feature specification")
    if {name for choice in choices(ask.preferred) for name in choice} - hardware.features:
        raise fails("Invalid preferred feature specification")


def require_fit(ask: Ask, hardware: Hardware) -> None:
    """Raise Usage, with Slurm's message, if the nodes of the partition could never satisfy the job's requests."""
    cpus = max(ask.cpus_of_nodes)
    per_node = (ask.memory_mib or 0) * (cpus if ask.per_cpu else 1)
    if not ask.total_gpus and int(ask.shown.get("CpusPerTres", "0").rpartition(":")[2]) > hardware.cpus:
        raise fails(CONFIGURATION)
    if cpus > hardware.cpus:
        raise Usage(f"sbatch: error: CPU count per node can not be satisfied\n{FAILED}{CONFIGURATION}")
    if per_node > hardware.memory_mib:
        what = "" if ask.per_cpu else "sbatch: error: Memory specification can not be satisfied\n"
        raise Usage(f"{what}{FAILED}{CONFIGURATION}")
    if hardware.disk_mib is not None and ask.tmp_mib > hardware.disk_mib:
        what = "Temporary disk specification can not be satisfied"
        raise Usage(f"sbatch: error: {what}\n{FAILED}{CONFIGURATION}")
    if not _has_shape(ask, hardware):
        raise Usage(
            f"sbatch: error: Socket, core and/or thread specification can not be satisfied\n{FAILED}{CONFIGURATION}"
        )
    if ask.gpus_per_node > hardware.gpus or not _has_room_for_tasks(ask, hardware):
        raise fails(CONFIGURATION)
    if ask.gpu_type:
        ask.gpu_products = sorted({node.gpu_product for node in hardware.each if has_type(node, ask.gpu_type)})
    if hardware.each and _possible(ask, hardware, cpus, per_node) < min(ask.node_count, len(hardware.each)):
        raise fails(CONFIGURATION)


def _has_shape(ask: Ask, hardware: Hardware) -> bool:
    """Return True if a node has the requested sockets, cores per socket and threads per core."""
    asked = (ask.shown.get("sockets", ""), ask.shown.get("cores", ""), ask.shown.get("threads", ""))
    if not any(asked):
        return True
    return any(
        all(not wanted or int(wanted) <= int(has) for wanted, has in zip(asked, shape.split(":"), strict=True))
        for shape in _shapes(hardware)
    )


def _shapes(hardware: Hardware) -> set[str]:
    """Return the sockets, cores per socket and threads per core of the nodes: `2:8:1`."""
    return {node.shape or f"1:{node.cpus}:1" for node in hardware.each} or {f"1:{hardware.cpus}:1"}


def _has_room_for_tasks(ask: Ask, hardware: Hardware) -> bool:
    """Return False if no node has the sockets for --ntasks-per-socket, or the CPUs for --ntasks-per-core."""
    cores = max(int(shape.split(":")[1]) for shape in _shapes(hardware))
    per_socket, per_core = (int(ask.shown.get(name, "1")) for name in ("per_socket", "per_core"))
    return per_socket <= cores and per_core <= hardware.cpus


def _possible(ask: Ask, hardware: Hardware, cpus: int, mib: int) -> int:
    """Return the number of nodes that satisfy the job's requests per node."""
    wanted = list(choices(ask.preferred or ask.features))  # Slurm 22.05 tries the preferred features alone
    return sum(
        node.cpus >= cpus
        and node.memory_mib >= mib
        and node.gpus >= ask.gpus_per_node
        and (not ask.gpu_type or has_type(node, ask.gpu_type))
        and node.name not in ask.excluded
        and (not wanted or any(set(choice) <= set(node.features) for choice in wanted))
        for node in hardware.each
    )


def has_type(node: Node, kind: str) -> bool:
    """Return whether the node's GPUs are of that type, that is, whether their product name contains it (`a100`:
    `NVIDIA-A100-SXM4-80GB`)."""
    return kind.lower() in node.gpu_product.lower()


def partition_limit(ask: Ask, partition: Partition, hardware: Hardware, limit_min: int | None) -> str:
    """Return the reason for which the partition keeps the job waiting, as Slurm says it."""
    if partition.accounts and ask.account not in partition.accounts:
        allowed = ",".join(partition.accounts)
        return (
            f"Job's account not permitted to use this partition ({partition.name} allows {allowed} not {ask.account})"
        )
    if partition.state == "DOWN":
        return "PartitionDown"
    if ask.nodes > (partition.max_nodes or hardware.nodes) or ask.nodes > hardware.nodes:
        return "PartitionNodeLimit"
    if partition.max_min is not None and (limit_min is None or limit_min > partition.max_min):
        return "PartitionTimeLimit"
    return ""
