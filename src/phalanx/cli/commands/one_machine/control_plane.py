"""`phalanx control-plane` (internal): all parts of `phalanx up` except the API server, in one process.

The scheduler, the Job controller and other controllers, this machine's node agent and the simulated nodes share one
connection and one cache for each kind. They communicate only through the API. If one of them fails, the process writes
the traceback to its log and ends, and `phalanx up` starts the process again. No state is lost, because all state is in
the API.

The scheduler uses the same Lease as `phalanx scheduler`, so that one of the two is the standby. Only one `phalanx up`
runs on a data directory, so the holder identity in the Lease is a constant: after a crash the next process takes over
at once, even if the Lease has not expired.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from phalanx.cli.cluster.informers import Informers
from phalanx.cli.cluster.monitoring import monitored
from phalanx.cli.cluster.scheduling import AnswerOf, schedule
from phalanx.cli.files.policy_file import DIALECTS, PolicySettings, settings_of
from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.local_cluster import LocalMachines, keep_logs_s
from phalanx.cli.local.node_groups.option import local_provisioning
from phalanx.cli.local.offered_kinds import install_offered, offered
from phalanx.cli.terminal.output import log_to_stderr
from phalanx.cli.terminal.stopping import until_stopped
from phalanx.cli.views.job.served import ServedViews
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES, Kind
from phalanx.client.policies import VALIDATING, VALIDATING_BINDINGS
from phalanx.client.quantity import amount
from phalanx.dialects.enabled import DIALECTS as FRAMED
from phalanx.dialects.job_kinds.appwrapper.wrapping import WRAPPINGS
from phalanx.dialects.kube_scheduler.koordinator.webhooks import COLOCATION
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.controllers.run import Settings as ControllerSettings
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.login.admission import CONTROL_PLANE
from phalanx.embedded.login.quota import DEFAULT, parse_quota
from phalanx.embedded.login.server import LoginSettings, run_login
from phalanx.embedded.node.container.image import read_images
from phalanx.embedded.node.machine.rdma import parse_rdma
from phalanx.embedded.node.machine.settings import NodeSettings, SimulatedSettings
from phalanx.embedded.node.run import run_node, run_simulated_nodes
from phalanx.embedded.node.simulated.nodes import retire
from phalanx.kube.install.admission_policy import install_policy, records_policies
from phalanx.kube.install.definitions import install, install_dialect
from phalanx.kube.leader import Lease, LeaseDurations
from phalanx.kube.read.node import read_node
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.ledger.entry import url_of
from phalanx.metrics.address import address
from phalanx.metrics.collector import Scheduler
from phalanx.slurm.cluster.admission import owner_objects
from phalanx.state.cluster import Cluster

IDENTITY = "phalanx-up"
# These times are longer than those of `phalanx scheduler`. No standby waits until this Lease expires, and the API
# server may be slow for a while, because the jobs run on the same machine.
TERMS = LeaseDurations(lease_s=60.0, renew_s=45.0, retry_s=5.0)


def control_plane(
    *,
    data: Path,
    policy: Path | None = None,
    record: Path | None = None,
    metrics_address: str | None = None,
    machines: LocalMachines | None = None,
) -> None:
    """Run the control plane of `phalanx up`. Only `phalanx up` starts this command.

    For example:

        phalanx control-plane --data ~/.phalanx
    """
    log_to_stderr(logging.INFO)
    gc.set_threshold(50_000, 20, 50)  # a watch creates many objects, and few of them refer to each other in cycles
    # all dialects are enabled, because no other scheduler runs in this cluster
    settings = replace(settings_of(policy), dialects=DIALECTS)
    where = None if metrics_address is None else address(metrics_address)
    uvloop.run(_serve(DataDirectory(data), settings, machines or LocalMachines(), record, where))


async def _serve(
    directory: DataDirectory,
    settings: PolicySettings,
    machines: LocalMachines,
    record: Path | None,
    where: tuple[str, int] | None,
) -> None:
    """Run all parts of the control plane until SIGTERM. Pods of this machine go on running afterwards."""
    async with await Connection.open(directory.control_plane_kubeconfig) as connection:
        lease = Lease(connection, IDENTITY, terms=TERMS, policy=settings.text())
        async with monitored(connection, lease, where) as metrics:
            await until_stopped(_run_all(connection, directory, settings, machines, record, lease, metrics))


async def _run_all(
    connection: Connection,
    directory: DataDirectory,
    settings: PolicySettings,
    machines: LocalMachines,
    record: Path | None,
    lease: Lease,
    metrics: Scheduler | None,
) -> None:
    async with asyncio.TaskGroup() as group:
        informers = Informers(connection, group)
        await install(connection)
        await install_policy(connection)
        await install_operators(connection)  # before the scheduler reads which kinds the API server has
        await install_offered(connection, offered(machines.kinds or ""))
        await asyncio.gather(*(install_dialect(connection, dialect) for dialect in FRAMED.values()))
        await retire(connection, machines.simulate_nodes)
        nodes = await local_provisioning(machines.node_group, machines.node_groups, connection, informers, group)
        for part in _companions(connection, informers, directory, machines):
            group.create_task(part)
        group.create_task(_say_ready(informers, machines))
        await schedule(
            connection,
            informers,
            lease,
            settings,
            record=record,
            metrics=metrics,
            ledger=url_of(directory.ledger),
            alone=_is_bound_here,
            views=directory.views,
            nodes=nodes,
            rows=partial(_served, url_of(directory.ledger)),
        )


def _served(
    ledger: str,
    cluster: Cluster,
    world: KubeWorld,
    informers: Callable[[Kind], Informer],
    now_s: Callable[[], float],
    starts: Callable[[], Mapping[str, float]],
) -> AnswerOf:
    return ServedViews(cluster, world, informers, now_s, starts, ledger).answer


def _is_bound_here(spec: Mapping[str, object]) -> bool:
    """Return True for every pod, because no other scheduler runs in this cluster: Phalanx also binds pods of the
    default scheduler. A bound pod whose image is missing waits with ErrImagePull, and the node starts the pod as soon
    as the image exists."""
    return True


def _companions(
    connection: Connection, informers: Informers, directory: DataDirectory, machines: LocalMachines
) -> Iterator[Coroutine[Any, Any, None]]:
    settings = ControllerSettings(
        root_ca=directory.authority.read_text(),
        wrappings=WRAPPINGS,
        profiles=COLOCATION,
        volumes_dir=directory.path / "volumes" if machines.local_node else None,
    )
    yield run_controllers(connection, informers, settings)
    if machines.local_node:
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
        yield run_node(connection, informers, node)
    if machines.shared:
        login = LoginSettings(
            socket=machines.login_socket,
            tokens=directory.tokens,
            authority=directory.authority,
            quota=parse_quota(machines.user_quota) if machines.user_quota is not None else DEFAULT,
            max_priority=machines.user_max_priority,
            policies=(
                *records_policies(CONTROL_PLANE, of_pods="Fail"),
                *zip((VALIDATING, VALIDATING_BINDINGS), owner_objects(), strict=True),
            ),
        )
        yield run_login(connection, login)
    simulated = SimulatedSettings(
        nodes=machines.simulate_nodes,
        cpu=machines.node_cpu,
        memory=machines.node_memory,
        gpu=machines.node_gpu,
        pods=machines.node_pods,
    )
    yield run_simulated_nodes(connection, informers, simulated)


async def _say_ready(informers: Informers, machines: LocalMachines) -> None:
    """Print `ready` on standard output when all nodes are ready. `phalanx up` waits for this line."""
    expected, changed = machines.simulate_nodes + machines.local_node, asyncio.Event()
    cache = informers(NODES)
    cache.subscribe(lambda change: changed.set())
    while sum(read_node(node).ready for node in cache.objects.values()) < expected:
        changed.clear()
        await changed.wait()
    print("ready", flush=True)
