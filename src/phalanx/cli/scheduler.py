"""`phalanx scheduler`: only the scheduler, for any Kubernetes cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time

from phalanx import loop
from phalanx.cli.informers import Informers
from phalanx.cli.output import note
from phalanx.cli.stopping import until_stopped
from phalanx.cli.target import Target, connected
from phalanx.client.connection import Connection
from phalanx.kube.lease import Lease, Terms, leading
from phalanx.kube.world import Settings, open_world
from phalanx.model.cluster import Cluster
from phalanx.model.policy import Policy

IDENTITY = f"{socket.gethostname()}-{os.getpid()}"


async def scheduler(*, target: Target | None = None, default_queue: str = "default", verbose: bool = False) -> None:
    """Schedule the jobs of a cluster, until Ctrl-C. (`phalanx up` does this too, for its own cluster.)

    Jobs with the label `phalanx.dev/queue` and pods with `schedulerName: phalanx` are its work; everything else it
    counts and leaves alone. Installs the definition of queues, and the queue `default`, where they are missing.
    Stopping it stops nothing that runs. Start it twice, or for the cluster of a `phalanx up`, and one stands by until
    the other is gone (a Lease, `kube-system/phalanx`).

    For example:

        phalanx scheduler
        phalanx scheduler --kubeconfig ~/.kube/config --context production

    Parameters
    ----------
    default_queue
        The queue of jobs that name none.
    verbose
        Say more on standard error.
    """
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    async with connected(target) as connection:
        note(f"scheduling for {connection.server}, as soon as no other does; Ctrl-C stops it, and nothing that runs")
        await until_stopped(schedule(connection, default_queue))


async def schedule(connection: Connection, default_queue: str) -> None:
    """The loop over the world that is this API server, until cancelled. Raises LeaseLost if another may lead."""
    lease = Lease(connection, f"{socket.gethostname()}-{os.getpid()}", terms=Terms())
    async with leading(lease), asyncio.TaskGroup() as group:
        note("this process leads")
        informers = Informers(connection, group)
        async with open_world(connection, informers, Settings(default_queue=default_queue), fence=lease.fence) as world:
            await loop.run(world, Cluster(), Policy(default_queue=default_queue), time.time)
