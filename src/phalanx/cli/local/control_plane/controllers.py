"""The controllers of `phalanx up`, with the settings from its options."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.client.connection import Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.dialects.job_kinds.appwrapper.wrapping import WRAPPINGS
from phalanx.dialects.kube_scheduler.koordinator.webhooks import COLOCATION
from phalanx.embedded.controllers.groups.settings import Settings
from phalanx.embedded.controllers.run import run_controllers


def controllers(
    connection: Connection, informers: Callable[[Kind], Informer], directory: DataDirectory, machines: LocalMachines
) -> Coroutine[object, object, None]:
    """Return the coroutine that runs the controllers."""
    settings = Settings(
        root_ca=directory.authority.read_text(),
        wrappings=WRAPPINGS,
        profiles=COLOCATION,
        volumes_dir=directory.path / "volumes" if machines.local_node else None,
    )
    return run_controllers(connection, informers, settings)
