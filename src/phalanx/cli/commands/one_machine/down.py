"""`phalanx down`: stop the `phalanx up` that runs on a data directory."""

from __future__ import annotations

import os
from pathlib import Path

from phalanx.cli.local.data_directory import chosen_directory
from phalanx.cli.local.detached import stop
from phalanx.cli.terminal.output import print_json

_PATIENCE_S = 120.0


def down(*, data: Path | None = None, json: bool = False) -> None:
    """Stop the cluster of this machine, as Ctrl-C in the terminal of `phalanx up` does. Running pods go on running, and
    the next `phalanx up` finds them.

    For example:

        phalanx up --detach
        phalanx down
        phalanx down --data ./cluster

    Parameters
    ----------
    data
        The data directory of the cluster. [default: $XDG_DATA_HOME/phalanx, else ~/.phalanx]
    json
        Print JSON: directory, stopped, said (the message of the stopped `phalanx up`).
    """
    directory = chosen_directory(data, os.environ)
    said = stop(directory, _PATIENCE_S)
    if json:
        print_json({"directory": str(directory.path), "stopped": True, "said": said})
    else:
        print(said)
