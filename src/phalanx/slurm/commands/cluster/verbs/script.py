"""scontrol write batch_script."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from phalanx.slurm.cluster.api import SECRETS, Api
from phalanx.slurm.commands.cluster.verbs.named import named
from phalanx.slurm.jobs.names import secret_of
from phalanx.slurm.options import Usage


def write(words: Sequence[str]) -> int:
    """write batch_script JOB [FILE]: the script, into slurm-JOB.sh or to standard output (-)."""
    if len(words) < 2 or words[0] != "batch_script":
        raise Usage("scontrol: error: write takes batch_script and a job id")
    api = Api.open()
    [job, *_] = named(api, words[1])
    data = api.within(job.namespace).get(f"{SECRETS}/{secret_of(job.number, job.ask)}").get("data") or {}
    text = base64.b64decode(data.get("PHALANX_SCRIPT", "")).decode(errors="replace")
    target = words[2] if len(words) > 2 else f"slurm-{job.number}.sh"
    if target == "-":
        print(text, end="")
        return 0
    with open(target, "w") as file:
        file.write(text)
    print(f"batch script for job {job.number} written to {target}")
    return 0
