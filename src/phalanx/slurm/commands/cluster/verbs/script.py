"""scontrol write batch_script."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from phalanx.slurm.cluster.api import SECRETS, Api
from phalanx.slurm.commands.cluster.verbs.named import named
from phalanx.slurm.jobs.names import secret_of
from phalanx.slurm.options import Usage, say


def write(words: Sequence[str]) -> int:
    """write batch_script JOB [FILE]: the script, into slurm-JOB.sh or to standard output (-)."""
    if not words:
        raise Usage("too few arguments for keyword:write")
    if words[0] != "batch_script":
        raise Usage(f"invalid write argument:{words[0]}")
    if len(words) < 2:
        return 0
    api = Api.open()
    try:
        [job, *_] = named(api, words[1])
    except Usage:
        say("job script retrieval failed: Invalid job id specified")
        return 0  # as Slurm does
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
