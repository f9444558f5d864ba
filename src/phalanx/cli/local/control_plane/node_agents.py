"""The nodes of `phalanx up`, with the settings from its options: this machine, and simulated nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.local_cluster import LocalMachines, keep_logs_s
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES, Kind
from phalanx.client.quantity import amount
from phalanx.embedded.node.container.image import read_images
from phalanx.embedded.node.machine.rdma import parse_rdma
from phalanx.embedded.node.machine.settings import NodeSettings, SimulatedSettings
from phalanx.embedded.node.run.machine_node import run_node
from phalanx.embedded.node.simulated.nodes import run_simulated_nodes
from phalanx.kube.read.node import read_node


def local_node(
    connection: Connection, informers: Callable[[Kind], Informer], directory: DataDirectory, machines: LocalMachines
) -> Coroutine[object, object, None]:
    """Return the coroutine that runs this machine as a node."""
    asked = {"cpu": machines.local_cpu, "memory": machines.local_memory, "nvidia.com/gpu": machines.local_gpu}
    resources = {name: str(amount) for name, amount in asked.items() if amount is not None}
    images = read_images(machines.local_images) if machines.local_images is not None else {}
    memory = machines.local_default_memory
    node = NodeSettings(
        data_dir=directory.path,
        resources=resources,
        images=images,
        shared=machines.shared,
        fenced=machines.shared and not machines.local_open_network,
        rdma=parse_rdma(machines.local_rdma) if machines.local_rdma is not None else {},
        static_cpus=machines.static_cpus,
        device_plugins=machines.device_plugins,
        devices=machines.local_devices,
        kept_log_bytes=amount("memory", machines.keep_logs),
        kept_log_s=keep_logs_s(machines),
        default_memory_bytes=None if memory is None else amount("memory", memory),
    )
    return run_node(connection, informers, node)


def simulated_nodes(
    connection: Connection, informers: Callable[[Kind], Informer], machines: LocalMachines
) -> Coroutine[object, object, None]:
    """Return the coroutine that runs the simulated nodes."""
    simulated = SimulatedSettings(
        nodes=machines.simulate_nodes,
        cpu=machines.node_cpu,
        memory=machines.node_memory,
        gpu=machines.node_gpu,
        pods=machines.node_pods,
    )
    return run_simulated_nodes(connection, informers, simulated)


async def say_ready(informers: Callable[[Kind], Informer], machines: LocalMachines) -> None:
    """Print `ready` on standard output when all nodes are ready. `phalanx up` waits for this line."""
    expected, changed = machines.simulate_nodes + machines.local_node, asyncio.Event()
    cache = informers(NODES)
    cache.subscribe(lambda change: changed.set())
    while sum(read_node(node).ready for node in cache.objects.values()) < expected:
        changed.clear()
        await changed.wait()
    print("ready", flush=True)
