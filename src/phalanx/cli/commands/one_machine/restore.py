"""`phalanx restore`: restore a cluster of this machine from a backup."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from phalanx.cli.local.backup import restore as put_back
from phalanx.cli.local.data_directory import chosen_directory
from phalanx.cli.terminal.output import counted, note


def restore(
    file: Annotated[Path, Parameter(name="FILE")], /, *, data: Path | None = None, replace: bool = False
) -> None:
    """Restore a cluster of this machine to its state when `phalanx backup` wrote the file.

    `phalanx up` must not run on this data directory. The next `phalanx up` finds the objects of the backup. Its Jobs go
    on, but pods that ran at the time of the backup have failed, as after a reboot. Jobs that were submitted after the
    backup are lost.

    For example:

        phalanx restore monday.tar.gz --data ./again
        phalanx restore monday.tar.gz --replace      # if a cluster exists there, its files are kept in replaced-TIME/

    Parameters
    ----------
    data
        The data directory of the restored cluster. [default: $XDG_DATA_HOME/phalanx, else ~/.phalanx]
    replace
        Replace the cluster in this directory, if there is one.
    """
    directory = chosen_directory(data, os.environ)
    done = put_back(file, directory, replace=replace)
    note(f"{directory.path}: {counted(done.objects, 'object')}, as in {file}")
    if done.replaced is not None:
        note(
            f"the files of the previous cluster are in {done.replaced}; remove them when you do not need them any more"
        )
