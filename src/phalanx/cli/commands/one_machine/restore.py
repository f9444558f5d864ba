"""`phalanx restore`: a cluster of this machine as it was when a backup was written."""

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
    """Put a cluster of this machine back as it was when `phalanx backup` wrote the file.

    `phalanx up` must not run there. The next one finds the objects of the backup: its Jobs go on, pods that ran then
    are ended as after a reboot, and jobs that came later are not known any more.

    For example:

        phalanx restore monday.tar.gz --data ./again
        phalanx restore monday.tar.gz --replace      # where one is: its files are kept in replaced-TIME/

    Parameters
    ----------
    data
        Where the cluster is to be kept. [default: $XDG_DATA_HOME/phalanx, else ~/.phalanx]
    replace
        Replace the cluster that is there.
    """
    directory = chosen_directory(data, os.environ)
    done = put_back(file, directory, replace=replace)
    note(f"{directory.path}: {counted(done.objects, 'object')}, as in {file}")
    if done.replaced is not None:
        note(f"what was there is in {done.replaced}; remove it when it is not needed any more")
