"""Prepare the API of the cluster before its parts start: install kinds and policies, and delete surplus simulated
nodes."""

from __future__ import annotations

import asyncio

from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.cli.local.offered_kinds import install_offered, offered
from phalanx.client.connection import Connection
from phalanx.dialects.enabled import DIALECTS as FRAMED
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.node.simulated.nodes import retire
from phalanx.kube.install.admission_policy import install_policy
from phalanx.kube.install.definitions import install, install_dialect


async def prepare(connection: Connection, machines: LocalMachines) -> None:
    """Install all kinds and policies, and delete those simulated nodes that the options `machines` do not request any
    more."""
    await install(connection)
    await install_policy(connection)
    await install_operators(connection)  # this must end before the scheduler reads the list of kinds
    await install_offered(connection, offered(machines.kinds or ""))
    await asyncio.gather(*(install_dialect(connection, dialect) for dialect in FRAMED.values()))
    await retire(connection, machines.simulate_nodes)
