"""Run all parts of the control plane of `phalanx up` except the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator

from phalanx.cli.local.control_plane.controllers import controllers
from phalanx.cli.local.control_plane.login_server import login_server
from phalanx.cli.local.control_plane.node_agents import local_node, say_ready, simulated_nodes
from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind


def companions(
    connection: Connection, informers: Callable[[Kind], Informer], directory: DataDirectory, machines: LocalMachines
) -> Iterator[Coroutine[object, object, None]]:
    """Yield a coroutine for each part of the control plane except the scheduler."""
    yield controllers(connection, informers, directory, machines)
    if machines.local_node:
        yield local_node(connection, informers, directory, machines)
    if machines.shared:
        yield login_server(connection, directory, machines)
    yield simulated_nodes(connection, informers, machines)
    yield say_ready(informers, machines)
