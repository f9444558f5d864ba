"""`phalanx install`: a shared cluster of this machine, as a service of systemd."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.terminal.output import note
from phalanx.errors import PhalanxError

_NAME = "phalanx.service"
# A port that is taken, or a disk that is full, for a while must not end the service for good (StartLimitIntervalSec).
# Pods are no part of the service: they go on when the service restarts (KillMode), and their own control groups limit
# them (Delegate). If memory is short, the kernel kills pods before the service (OOMScoreAdjust; pods have their own
# scores).
_UNIT = """[Unit]
Description=Phalanx: jobs of this machine's users
After=network.target
RequiresMountsFor={data}
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
Restart=always
RestartSec=2
KillMode=process
Delegate=yes
TasksMax=infinity
LimitNOFILE=infinity
OOMScoreAdjust=-999
RuntimeDirectory=phalanx
RuntimeDirectoryMode=0755

[Install]
WantedBy=multi-user.target
"""


def install(
    *,
    data: Path = Path("/var/lib/phalanx"),
    port: Annotated[int, Parameter(validator=Number(gte=1, lte=65535))] = 6443,
    units: Path = Path("/etc/systemd/system"),
) -> None:
    """Write a systemd service that shares this machine with its users: `phalanx up --shared`, from each boot on.

    The command starts nothing. It prints the commands that start the service. Users then say `phalanx login`.

    For example:

        sudo phalanx install
        sudo phalanx install --data /srv/phalanx --port 7443

    Parameters
    ----------
    data
        Where the cluster keeps everything; root's alone.
    port
        The port of the API.
    units
        The directory of systemd's units.
    """
    words = (sys.executable, "-m", "phalanx.cli.app", "up", "--shared", "--data", str(data), "--port", str(port))
    place = units / _NAME
    _require_path(data)
    try:
        command, folder = (shlex.join(said).replace("%", "%%") for said in (words, (str(data),)))
        place.write_text(_UNIT.format(command=command, data=folder))
    except OSError as error:
        raise PhalanxError(
            f"{place} cannot be written: {error.strerror}. Nothing was installed. Say this as root, on a machine with "
            "systemd; or start `phalanx up --shared` by whatever starts services here."
        ) from error
    note(f"wrote {place}. Start it, now and at each boot: systemctl daemon-reload && systemctl enable --now phalanx")


def _require_path(data: Path) -> None:
    """Raises PhalanxError: a service has no directory of its own from which a relative path would count."""
    if not data.is_absolute() or any(letter in str(data) for letter in "\n\"'$\\"):
        raise PhalanxError(f"--data {data} must be an absolute path, without quotes, $ and backslashes")
