"""Read the size of a job, and check whether the nodes can ever satisfy it.

The first part checks the request against the nodes that the job may use. The second part reads the requested nodes,
tasks, CPUs, memory and GPUs from the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from phalanx.slurm.cluster.site import Partition
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.nodes import NodeInfo
from phalanx.slurm.notation import amounts
from phalanx.slurm.options import Usage, say

FAILED = "sbatch: error: Batch job submission failed: "
CONFIGURATION = "Requested node configuration is not available"
_COUNT = re.compile(r"\*\d+$")


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware of the partitions that a job may use. `cpus`, `memory_mib`, `gpus`: the largest amounts on one node.
    `nodes`: the number of nodes. `names`, `features`: the names and features of all nodes of the cluster; empty if
    unknown. `each`: the nodes of these partitions, if known. `every`: all nodes of the cluster. `disk_mib`: the largest
    TmpDisk of a node; None if slurm.conf does not describe the nodes."""

    names: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    cpus: int = 1
    memory_mib: int = 1
    gpus: int = 0
    nodes: int = 1
    each: tuple[NodeInfo, ...] = ()
    disk_mib: int | None = None
    every: tuple[NodeInfo, ...] = ()


def fails(text: str) -> Usage:
    return Usage(FAILED + text)


def choices(text: str) -> Iterator[list[str]]:
    """Yield the alternatives of a feature specification such as `a&b|c`, `[a|b]` or `a*2`. Each alternative is a list
    of features, all of which a node must have."""
    for choice in text.replace(",", "&").replace("[", "").replace("]", "").replace("(", "").replace(")", "").split("|"):
        if names := [_COUNT.sub("", name) for name in choice.split("&") if name]:
            yield names


def require_features(ask: Ask, hardware: Hardware) -> None:
    """Raise Usage if there is a requested or preferred feature that no node of the cluster has."""
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
    """Return the different shapes of the nodes: sockets, cores per socket and threads per core, such as `2:8:1`."""
    return {node.shape or f"1:{node.cpus}:1" for node in hardware.each} or {f"1:{hardware.cpus}:1"}


def _has_room_for_tasks(ask: Ask, hardware: Hardware) -> bool:
    """Return False if --ntasks-per-socket exceeds the cores of every socket, or --ntasks-per-core the CPUs of every
    node."""
    cores = max(int(shape.split(":")[1]) for shape in _shapes(hardware))
    per_socket, per_core = (int(ask.shown.get(name, "1")) for name in ("per_socket", "per_core"))
    return per_socket <= cores and per_core <= hardware.cpus


def _possible(ask: Ask, hardware: Hardware, cpus: int, mib: int) -> int:
    """Return the number of nodes in the partition that satisfy the job's requests for a single node. `cpus`, `mib`: the
    requested CPUs and memory of each node."""
    # If the job has preferred features, Slurm 22.05 checks them instead of the required features.
    wanted = list(choices(ask.preferred or ask.features))
    return sum(
        node.cpus >= cpus
        and node.memory_mib >= mib
        and node.gpus >= ask.gpus_per_node
        and (not ask.gpu_type or has_type(node, ask.gpu_type))
        and node.name not in ask.excluded
        and (not wanted or any(set(choice) <= set(node.features) for choice in wanted))
        for node in hardware.each
    )


def has_type(node: NodeInfo, kind: str) -> bool:
    """Return whether the node has GPUs of the type `kind`, that is, whether their product name contains `kind`.
    Example: `NVIDIA-A100-SXM4-80GB` contains `a100`."""
    return kind.lower() in node.gpu_product.lower()


def partition_limit(ask: Ask, partition: Partition, hardware: Hardware, limit_min: int | None) -> str:
    """Return Slurm's reason why the job cannot run in the partition now; "" if it can. `limit_min`: the time limit of
    the job in this partition, in minutes; None: no limit."""
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


# --- requests ---------------------------------------------------------------------------------------------------------

Options = Mapping[str, str | None]
_GPUS = ("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres")
NO_GRES = "sbatch: error: Invalid generic resource (gres) specification"


def require_gres(said: Options) -> None:
    """Raise Usage if the value of --gres (generic resources) is invalid. This check needs no data of the site."""
    for part in (said.get("gres") or "").split(","):
        if part:
            _gpus(part, "gres")
    if said.get("gpus-per-task") is not None and not {"gpus", "ntasks"} & said.keys():
        why = "--gpus-per-task used without either --gpus or -n/--ntasks is not allowed."
        raise Usage(f"sbatch: error: Failed to validate job spec. {why}\n{NO_GRES}")


def read_size(ask: Ask, said: Options, partition: Partition, hardware: Hardware) -> None:
    """Set the requested nodes, tasks, CPUs, memory and GPUs of the request `ask` from the options `said`. Raises
    Usage."""
    ask.cpus_per_task, ask.node_cpus = _number(said, "cpus-per-task", 1), min(hardware.cpus, 1 << 16)
    ask.tasks_per_node = _number(said, "ntasks-per-node", 0)
    ask.min_cpus = _number(said, "mincpus", 1)
    if _asks_no_nodes(said):
        if not ask.hold:
            raise fails("Node count specification invalid")
        ask.nodes = 1 if "ntasks" in said else 0  # Slurm refuses the release of this held job
    elif text := said.get("nodes"):
        ask.nodes, ask.max_nodes = _nodes(text)
        ask.said_nodes = True
        if len(ask.wanted) > ask.max_nodes:
            raise Usage(f"sbatch: error: invalid number of nodes (-N {len(ask.wanted)}-{ask.max_nodes})")
    elif len(ask.wanted) > 1:
        ask.nodes = len(ask.wanted)
    _read_gpus(ask, said)
    ask.tasks = _number(said, "ntasks", _default_tasks(ask, said))
    if text := said.get("gpus-per-task"):
        ask.gpus = ask.tasks * sum(_gpus(part, "gpus-per-task")[0] for part in text.split(","))
    if not ask.said_nodes and len(ask.wanted) <= 1 and ask.nodes:
        least = _fewest_nodes(ask, hardware)
        shown = max(least, -(-ask.gpus // ask.gpus_per_node) if ask.gpus_per_node else 1)
        ask.nodes = max(shown, -(-ask.gpus // hardware.gpus) if hardware.gpus else 1)
        if ask.nodes > least:
            ask.waiting_nodes, ask.waiting_tasks = shown, ask.tasks
            ask.tasks = ask.tasks if "ntasks" in said else max(ask.tasks, ask.nodes)
    elif ask.tasks < ask.nodes and ask.said_nodes:
        if "ntasks" in said:
            say(f"sbatch: Warning: can't run {ask.tasks} processes on {ask.nodes} nodes, setting nnodes to {ask.tasks}")
        ask.nodes = ask.tasks
        ask.max_nodes = min(ask.max_nodes, ask.nodes)
    _memory(ask, said, partition, hardware)
    _spread_gpus(ask, said)


def _number(said: Options, name: str, default: int) -> int:
    text = said.get(name)
    return default if text is None else min(int(text), 1 << 22)


def _asks_no_nodes(said: Options) -> bool:
    """Return True if the options request no nodes: `-N 0`, or an empty --nodelist without -N."""
    return said.get("nodes") == "0" or (not said.get("nodes") and said.get("nodelist") == "")


def _nodes(text: str) -> tuple[int, int]:
    """Return the smallest and the largest number of nodes that a value of --nodes allows. Raises Usage, with Slurm's
    message."""
    least, dash, most = text.partition("-")
    if dash and least in ("", "0") and most.isdecimal():
        least = "1"
    if dash and least.isdecimal() and (not most or (most.isdecimal() and int(least) > int(most))):
        shown = most or "-1"
        raise Usage(f"sbatch: error: Maximum node count {shown} is less than minimum node count {least}", 255)
    try:
        return amounts.read_range(f"{least}{dash}{most}")
    except amounts.AmountError:
        raise Usage(f'sbatch: error: "{text}" is not a valid node count', 255) from None


def _default_tasks(ask: Ask, said: Options) -> int:
    """Return the number of tasks of a job without --ntasks."""
    per_gpu = said.get("ntasks-per-gpu") or said.get("ntasks-per-tres")
    if per_gpu:
        gpus = ask.gpus or ask.gpus_per_node * ask.node_count
        if not gpus:
            raise Usage(
                "sbatch: error: gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a "
                f"node/ntask specification\n{NO_GRES}"
            )
        return gpus * int(per_gpu)
    shape = [ask.shown.get(part, "") for part in ("sockets", "cores", "threads")]
    if said.get("extra-node-info") and any(shape):
        per_node = 1
        for count in shape:
            per_node *= int(count or 1)
        return ask.nodes * per_node
    return ask.nodes * max(1, ask.tasks_per_node)


def _fewest_nodes(ask: Ask, hardware: Hardware) -> int:
    """Return the smallest number of nodes on which the tasks with their CPUs fit."""
    found = max(1, -(-ask.tasks // hardware.cpus))
    if ask.cpus_per_task <= hardware.cpus:  # another check refuses tasks that are larger than a node
        found = max(found, -(-ask.cpus // hardware.cpus))
    if ask.tasks_per_node:
        found = max(found, -(-ask.tasks // ask.tasks_per_node))
    return found


def _memory(ask: Ask, said: Options, partition: Partition, hardware: Hardware) -> None:
    given = [name for name in ("mem", "mem-per-cpu", "mem-per-gpu") if said.get(name)]
    if len(given) > 1:
        raise Usage("sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
    if not given or given[0] == "mem-per-gpu":
        ask.memory_mib, ask.per_cpu = partition.mem_per_cpu_mib, partition.mem_per_cpu_mib is not None
        return
    ask.memory_mib = amounts.read_mib(said[given[0]] or "")
    ask.per_cpu = given[0] == "mem-per-cpu" and ask.memory_mib > 0
    if ask.memory_mib == 0:  # --mem=0 requests all memory of the node
        ask.memory_mib, ask.shown["memory"] = hardware.memory_mib, "0"


# --- GPUs -----------------------------------------------------------------------------------------------------------


def _read_gpus(ask: Ask, said: Options) -> None:
    """Set the number of GPUs of the whole job, or of each node, from the GPU options."""
    for option in _GPUS:
        if not said.get(option):
            continue
        for part in (said[option] or "").split(","):
            count, kind = _gpus(part, option)
            ask.gpu_type = kind or ask.gpu_type
            name = f"gres:{part}" if option == "gres" else f"gres:gpu:{part}"
            match option:
                case "gres" | "gpus-per-node":
                    ask.gpus_per_node += count
                    if part.lower() != "none":
                        ask.tres_per_node = f"{ask.tres_per_node},{name}".lstrip(",")
                case "gpus":
                    ask.gpus += count
                    ask.shown["TresPerJob"] = name
                case "gpus-per-task":
                    ask.shown["TresPerTask"] = name
                case "gpus-per-socket":
                    ask.shown["TresPerSocket"] = name
                    if "sockets" not in ask.shown:
                        raise Usage(
                            "sbatch: error: --gpus-per-socket option requires --sockets-per-node specification\n"
                            + NO_GRES
                        )
                    ask.gpus_per_node += count * int(ask.shown["sockets"])
    if said.get("ntasks-per-gpu") and said.get("ntasks") and not (ask.gpus or ask.gpus_per_node):
        ask.gpus = -(-int(said["ntasks"] or 1) // int(said["ntasks-per-gpu"] or 1))


def _gpus(part: str, option: str) -> tuple[int, str]:
    """Return the number of GPUs and their type in a part of a GPU option; the type is "" if the part names none. Raises
    Usage."""
    words = part.removeprefix("gres:").removeprefix("gres/").split(":")
    if option == "gres":
        if part.lower() == "none":
            return 0, ""
        if words[0] != "gpu":
            raise Usage(NO_GRES)
        words = words[1:]
    count = words.pop() if words and re.fullmatch(r"\d+[km]?", words[-1], re.IGNORECASE) else "1"
    if option == "gres" and len(words) > 1:
        raise Usage(NO_GRES)
    return amounts.read_count(count), ":".join(words)


def _spread_gpus(ask: Ask, said: Options) -> None:
    """Set the number of GPUs of each node, and the CPUs and memory that options request for each GPU. Raises Usage."""
    if ask.gpus:
        ask.gpus_per_node = -(-ask.gpus // ask.node_count)
    if text := said.get("mem-per-gpu"):
        mib = amounts.read_mib(text)
        if mib and not ask.gpus_per_node:
            raise Usage(f"sbatch: error: Requested mem_per_tres=gres:gpu:{mib} but did not request any GPU.\n{NO_GRES}")
        if mib:
            ask.shown["waiting_memory"] = str(ask.memory_mib or 0)
            ask.memory_mib, ask.per_cpu, ask.shown["MemPerTres"] = mib * ask.gpus_per_node, False, f"gres:gpu:{mib}"
    if text := said.get("cpus-per-gpu"):
        ask.shown["CpusPerTres"] = f"gres:gpu:{text}"
        ask.min_cpus = max(ask.min_cpus, int(text) * ask.gpus_per_node)
    if text := said.get("ntasks-per-gpu") or said.get("ntasks-per-tres"):
        ask.shown["NtasksPerTRES"] = text
