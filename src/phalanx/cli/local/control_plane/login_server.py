"""The login server of a shared `phalanx up`, with the settings from its options."""

from __future__ import annotations

from collections.abc import Coroutine

from phalanx.cli.local.data_directory import DataDirectory
from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.client.connection import Connection
from phalanx.client.policies import VALIDATING, VALIDATING_BINDINGS
from phalanx.embedded.login.admission import CONTROL_PLANE
from phalanx.embedded.login.quota import DEFAULT, parse_quota
from phalanx.embedded.login.server import LoginSettings, run_login
from phalanx.kube.install.admission_policy import records_policies
from phalanx.slurm.cluster.admission import owner_objects


def login_server(
    connection: Connection, directory: DataDirectory, machines: LocalMachines
) -> Coroutine[object, object, None]:
    """Return the coroutine that runs the login server."""
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
    return run_login(connection, login)
