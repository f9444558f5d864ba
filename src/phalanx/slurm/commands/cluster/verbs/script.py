"""scontrol write: a job's script, and the configuration of the site."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import SECRETS, Api
from phalanx.slurm.commands.cluster.configured import settings
from phalanx.slurm.commands.cluster.verbs.named import named
from phalanx.slurm.jobs.names import secret_of
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import compress
from phalanx.slurm.options import Usage, say


def write(words: Sequence[str]) -> int:
    """write batch_script JOB [FILE]: the script, into slurm-JOB.sh or to standard output (-). write config [FILE]."""
    if not words:
        raise Usage("too few arguments for keyword:write")
    if words[0] == "config":
        return _write_config(words[1] if len(words) > 1 else _CONFIG)
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


_CONFIG = "/etc/slurm/slurm.conf"
_ADDED = ("SLURM_VERSION",)  # what `show config` shows, and slurm.conf does not have


def _write_config(file: str) -> int:
    """Write the settings and partitions of the site into FILE.TIME. As in Slurm, a file that cannot be written is no
    error."""
    here = site.load(Api.open())
    lines = [f"{name}={text}" for name, text in settings(here) if text != "(null)" and name not in _ADDED]
    for one in here.all:
        nodes = compress(one.nodes, ordered=True) or "ALL"
        limits = f"MaxTime={times.limit(one.max_min, long=True)} State={one.state}"
        lines.append(f"PartitionName={one.name} Nodes={nodes} Default={'YES' if one.default else 'NO'} {limits}")
    path = f"{file}.{times.moment(time.time())}"
    try:
        with open(path, "x") as out:
            out.write("\n".join(lines) + "\n")
    except OSError as error:
        say(f"Could not create file {path}: {error.strerror}")
        return 0
    print(f"Slurm config saved to {path}")
    return 0
