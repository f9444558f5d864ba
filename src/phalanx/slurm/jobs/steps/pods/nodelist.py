"""The names of a job's nodes, printed for its launcher: `python -m phalanx.slurm.jobs.steps.pods.nodelist JOB`.

With the number of components of a heterogeneous job behind it: assignments for a shell, of each component's nodes.
"""

from __future__ import annotations

import shlex
import sys

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs.steps.pods.place import allocation
from phalanx.slurm.notation.hostlist import compress


def main(words: list[str]) -> None:
    """Raises PhalanxError."""
    api, first = Api.open(), int(words[0])
    if len(words) == 1:
        print(_listed(api, first))
    for at in range(int(words[1]) if len(words) > 1 else 0):
        listed = shlex.quote(_listed(api, first + at))
        print("export", *(f"SLURM_JOB_NODELIST_{kind}_GROUP_{at}={listed}" for kind in ("HET", "PACK")))


def _listed(api: Api, number: int) -> str:
    return compress(allocation(api, number).nodes, ordered=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except PhalanxError as error:
        sys.exit(f"phalanx: {error}")
