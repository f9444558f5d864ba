"""`phalanx install`: install a shared cluster of this machine as a service of systemd."""

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
# StartLimitIntervalSec: systemd never stops retrying, because a port in use or a full disk may be a temporary problem.
# KillMode: pods continue to run when the service restarts. Delegate: the service may create a control group for each
# pod, which limits the pod. OOMScoreAdjust: if memory is short, the kernel kills pods before the service; pods have
# their own scores.
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
    """Write a systemd service that shares this machine with its users. It runs `phalanx up --shared` from each boot on.

    The command starts nothing; it prints the commands that start the service. After that, users run `phalanx login`.

    For example:

        sudo phalanx install
        sudo phalanx install --data /srv/phalanx --port 7443

    Parameters
    ----------
    data
        The data directory of the cluster. Only root can read it.
    port
        The port of the API.
    units
        The directory of systemd's unit files.
    """
    words = (sys.executable, "-m", "phalanx.cli.app", "up", "--shared", "--data", str(data), "--port", str(port))
    place = units / _NAME
    _require_path(data)
    try:
        command, folder = (shlex.join(said).replace("%", "%%") for said in (words, (str(data),)))
        place.write_text(_UNIT.format(command=command, data=folder))
    except OSError as error:
        raise PhalanxError(
            f"{place} cannot be written: {error.strerror}. Nothing was installed. Run this command as root on a "
            "machine with "
            "systemd, or let another service manager start `phalanx up --shared`."
        ) from error
    note(f"wrote {place}. Start it, now and at each boot: systemctl daemon-reload && systemctl enable --now phalanx")


def _require_path(data: Path) -> None:
    """Raise PhalanxError for a relative path, because a systemd service does not run in the user's working directory.
    Raise it also for characters that need quoting in a unit file."""
    if not data.is_absolute() or any(letter in str(data) for letter in "\n\"'$\\"):
        raise PhalanxError(f"--data {data} must be an absolute path, without quotes, $ and backslashes")
