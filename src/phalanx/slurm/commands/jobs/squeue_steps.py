"""squeue --steps: show running steps. This option has its own columns and its own order."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from phalanx.slurm.cluster.site import cluster_name
from phalanx.slurm.jobs import fields, pages
from phalanx.slurm.jobs.fields import Field
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import Usage, say

DEFAULT = "%.15i %.8j %.9P %.8u %.9M %N"
# The options that select steps. As in Slurm, all other options that select jobs have no effect on steps.
CHOOSING = frozenset({"jobs", "me", "nodelist", "partition", "steps", "user"})
_ID = re.compile(r"\d+(_\d+|\+\d+)?\.\w+")
_NOTHING = "(null)"


class StepLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line about a running step. `name`: the number of the step, or `batch` for the script. `record`: the record of
    the step; None for the script."""

    job: JobInfo
    name: str
    record: StepRecord | None

    @property
    def id(self) -> str:
        return f"{self.job.id}.{self.name}"

    @property
    def since_s(self) -> float:
        return self.record.start_s if self.record is not None else self.job.start_s or time.time()

    @property
    def nodes(self) -> Sequence[str]:
        return self.record.nodes if self.record is not None else self.job.nodes[:1]

    @property
    def title(self) -> str:
        return self.record.name if self.record is not None else self.name

    def is_one_of(self, wanted: set[str]) -> bool:
        """Return True if one of the wanted ids names this step, by the id of its task, or by the number of its job or
        array."""
        return bool({f"{one}.{self.name}" for one in (self.job.id, self.job.number, self.job.base)} & wanted)


def _gpus(line: StepLine) -> str:
    return line.job.ask.tres_per_node or _NOTHING if line.record is not None else _NOTHING


def _null(heading: str) -> Field[StepLine]:
    return Field(heading, lambda line: _NOTHING)


_LETTERS: dict[str, Field[StepLine]] = {
    "A": Field("TASKS", lambda line: str(line.record.tasks if line.record is not None else 1)),
    "b": Field("TRES_PER_JOB", _gpus),
    "i": Field("STEPID", lambda line: line.id),
    "j": Field("NAME", lambda line: line.title),
    "l": Field("TIME_LIMIT", lambda line: "UNLIMITED"),
    "M": Field("TIME", lambda line: times.elapsed(time.time() - line.since_s)),
    "N": Field("NODELIST", lambda line: compress(line.nodes, ordered=True), uncut=True),
    "P": Field("PARTITION", lambda line: line.job.ask.partition),
    "S": Field("START_TIME", lambda line: times.moment(line.since_s)),
    "u": Field("USER", lambda line: line.job.ask.user),
    "U": Field("UID", lambda line: str(line.job.ask.uid)),
}
_NAMES: dict[str, Field[StepLine]] = {
    "arrayjobid": Field("ARRAY_JOB_ID", lambda line: str(line.job.ask.array or 0)),
    "arraytaskid": Field("ARRAY_TASK_ID", lambda line: "N/A" if (at := line.job.ask.task) is None else str(at)),
    "cluster": Field("CLUSTER", lambda line: cluster_name()),
    "container": _null("CONTAINER"),
    "cpufreq": Field("CPU_FREQ", lambda line: "0-0:0" if line.record is None else "Unknown-Unknown:Unknown"),
    "cpus-per-tres": _null("CPUS_PER_TRES"),
    "jobid": Field("JOB_ID", lambda line: str(line.job.number)),
    "mem-per-tres": _null("MEM_PER_TRES"),
    "network": _null("NETWORK"),
    "nodes": _LETTERS["N"],
    "numcpus": Field("NUM_CPUS", lambda line: str(line.record.cpus if line.record is not None else 0)),
    "numtasks": _LETTERS["A"],
    "partition": _LETTERS["P"],
    "starttime": _LETTERS["S"],
    "stepid": _LETTERS["i"],
    "stepname": _LETTERS["j"],
    "stepstate": Field("STATE", lambda line: "RUNNING"),
    "timelimit": _LETTERS["l"],
    "timeused": _LETTERS["M"],
    "tres-bind": _null("TRES_BIND"),
    "tres-freq": _null("TRES_FREQ"),
    "tres-per-job": _null("TRES_PER_STEP"),
    "tres-per-node": _LETTERS["b"],
    "tres-per-socket": _null("TRES_PER_SOCKET"),
    "tres-per-step": _null("TRES_PER_STEP"),
    "tres-per-task": _null("TRES_PER_TASK"),
    "userid": _LETTERS["U"],
    "username": _LETTERS["u"],
}
# letter of --sort -> sort key; as in Slurm, other letters have no effect
_KEYS: dict[str, Callable[[StepLine], Any]] = {
    "i": lambda line: (line.job.number, int(line.name) if line.name.isdecimal() else float("inf")),
    "M": lambda line: -int(line.since_s),
    "P": lambda line: line.job.ask.partition,
    "S": lambda line: int(line.since_s),
    "u": lambda line: line.job.ask.user,
}


def read_steps(said: Mapping[str, str | None]) -> set[str]:
    """Return the ids that --steps names; an empty set means all steps. Raises Usage."""
    wanted = {one for one in (said.get("steps") or "").split(",") if one}
    for one in wanted:
        if not _ID.fullmatch(one):
            raise Usage(f"squeue: error: Invalid job_step id: {one}{'' if '.' in one else '.??'}")
    return wanted


def show_steps(found: Sequence[JobInfo], said: Mapping[str, str | None]) -> int:
    """Print the running steps of these jobs, such as `12.batch` and `12.0`, and return the exit code."""
    wanted, nodes = read_steps(said), set(expand(said.get("nodelist") or ""))
    columns, wrong = fields.columns(said, DEFAULT, _LETTERS, _NAMES)
    for name in wrong:
        say(f"squeue: error: Invalid job step format specification: {name}")
    lines = [] if "noheader" in said else [fields.heading(columns)]
    for line in _sorted(_running(found), said.get("sort", "P,i") or ""):
        if (not wanted or line.is_one_of(wanted)) and (not nodes or nodes & set(line.nodes)):
            lines.append(fields.line(columns, line))
    if lines:
        print("\n".join(lines), flush=True)
    return 0


def _running(found: Sequence[JobInfo]) -> list[StepLine]:
    """Return the running steps in the order of Slurm's controller: by job; in a job first `batch`, then by number."""
    runs = [job for job in found if job.state in ("RUNNING", "SUSPENDED")]
    return [
        StepLine(job=job, name=name, record=job.steps.get(int(name)) if name.isdecimal() else None)
        for job in sorted(runs, key=lambda job: (job.base, job.ask.task or 0))
        for name in sorted(pages.steps(job), key=lambda name: (name != "batch", len(name), name))
    ]


def _sorted(lines: list[StepLine], order: str) -> list[StepLine]:
    for word in reversed([word.strip() for word in order.split(",")]):
        if (key := _KEYS.get(word.lstrip("+-")[:1])) is not None:
            lines = sorted(lines, key=key, reverse=word.startswith("-"))
    return lines
