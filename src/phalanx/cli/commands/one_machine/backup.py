"""`phalanx backup`: write a cluster of this machine into one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.local.backup import back_up
from phalanx.cli.local.data_directory import chosen_directory
from phalanx.cli.terminal.output import note
from phalanx.errors import PhalanxError


def backup(
    file: Annotated[Path, Parameter(name="FILE")], /, *, data: Path | None = None, replace: bool = False
) -> None:
    """Write a cluster of this machine into one file: its objects, its ledger, its keys and tokens.

    All data in the file is from the same moment, even if `phalanx up` runs. The running cluster is not disturbed.
    Volumes and logs of pods are not saved. The file contains secrets, so only you can read it.

    For example:

        phalanx backup monday.tar.gz
        phalanx backup --data ./cluster --replace latest.tar.gz

    Parameters
    ----------
    data
        The data directory of the cluster. [default: $XDG_DATA_HOME/phalanx, else ~/.phalanx]
    replace
        Replace FILE if it exists.
    """
    if not file.parent.is_dir():
        raise PhalanxError(f"{file} cannot be written: there is no folder {file.parent}. Nothing was written.")
    if file.exists() and not replace:
        raise PhalanxError(f"{file} exists already. Nothing was written. Name another file, or add --replace.")
    directory = chosen_directory(data, os.environ)
    size_bytes = back_up(directory, file)
    note(f"{file}: {directory.path}, {size_bytes / 2**20:.1f} MiB")
