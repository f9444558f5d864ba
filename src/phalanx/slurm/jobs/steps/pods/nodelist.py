"""The names of a job's nodes, printed for its launcher: `python -m phalanx.slurm.jobs.steps.pods.nodelist JOB`."""

from __future__ import annotations

import sys

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs.steps.pods.place import allocation
from phalanx.slurm.notation.hostlist import compress

if __name__ == "__main__":
    try:
        print(compress(allocation(Api.open(), int(sys.argv[1])).nodes, ordered=True))
    except PhalanxError as error:
        sys.exit(f"phalanx: {error}")
