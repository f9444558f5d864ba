"""Print the names of a job's nodes for its launcher: `python -m phalanx.slurm.jobs.steps.pods.nodelist JOB
[COMPONENTS]`.

For a heterogeneous job, the second argument is the number of its components. In this case the program prints shell
commands that set variables to the nodes of each component.
"""

from __future__ import annotations

import shlex
import sys

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.jobs.steps.pods.place import allocation
from phalanx.slurm.notation.hostlist import compress


def main(words: list[str]) -> None:
    """Print the nodes of the job. `words`: the arguments of the program. Raises PhalanxError."""
    api, first = ApiClient.open(), int(words[0])
    if len(words) == 1:
        print(_listed(api, first))
    for at in range(int(words[1]) if len(words) > 1 else 0):
        listed = shlex.quote(_listed(api, first + at))
        print("export", *(f"SLURM_JOB_NODELIST_{kind}_GROUP_{at}={listed}" for kind in ("HET", "PACK")))


def _listed(api: ApiClient, number: int) -> str:
    return compress(allocation(api, number).nodes, ordered=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except PhalanxError as error:
        sys.exit(f"phalanx: {error}")
