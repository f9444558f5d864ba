"""sstat: show the resource usage of running steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import msgspec

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.jobs.ask import BATCH
from phalanx.slurm.jobs.chosen import Chosen, NoJob, read_ids
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.notation.hostlist import compress
from phalanx.slurm.notation.printed import Printed, chosen, show
from phalanx.slurm.options import OptionReader, Usage, declare, say

OPTIONS = declare(
    "allsteps,a fields|format,o= helpformat,e help,h jobs,j= noheader,n noconvert pidformat,i parsable,p parsable2,P "
    "usage verbose,v version,V"
)
_READER = OptionReader("sstat", OPTIONS, hint=False)
# field -> width; Phalanx measures only a few of these fields while a step runs, and leaves the others empty
_WIDTHS = {
    "JobID": -12, "MaxVMSize": 10, "MaxVMSizeNode": 14, "MaxVMSizeTask": 14, "AveVMSize": 10, "MaxRSS": 10,
    "MaxRSSNode": 10, "MaxRSSTask": 10, "AveRSS": 10, "MaxPages": 8, "MaxPagesNode": 12, "MaxPagesTask": 14,
    "AvePages": 10, "MinCPU": 10, "MinCPUNode": 10, "MinCPUTask": 10, "AveCPU": 10, "NTasks": 8, "AveCPUFreq": 10,
    "ReqCPUFreqMin": 13, "ReqCPUFreqMax": 13, "ReqCPUFreqGov": 13, "ConsumedEnergy": 14, "MaxDiskRead": 12,
    "MaxDiskReadNode": 15, "MaxDiskReadTask": 15, "AveDiskRead": 12, "MaxDiskWrite": 12, "MaxDiskWriteNode": 16,
    "MaxDiskWriteTask": 16, "AveDiskWrite": 12, "TRESUsageInAve": 14, "TRESUsageInMax": 14, "TRESUsageInMaxNode": 18,
    "TRESUsageInMaxTask": 18, "TRESUsageInMin": 14, "TRESUsageInMinNode": 18, "TRESUsageInMinTask": 18,
    "TRESUsageInTot": 14, "TRESUsageOutAve": 15, "TRESUsageOutMax": 15, "TRESUsageOutMaxNode": 19,
    "TRESUsageOutMaxTask": 19, "TRESUsageOutMin": 15, "TRESUsageOutMinNode": 19, "TRESUsageOutMinTask": 19,
    "TRESUsageOutTot": 15,
}  # fmt: skip
_MORE = {"ConsumedEnergyRaw": 17, "Nodelist": 20, "Pids": 20, "ReqCPUFreq": 10}
_ORDER = (
    "AveCPU AveCPUFreq AveDiskRead AveDiskWrite AvePages AveRSS AveVMSize ConsumedEnergy ConsumedEnergyRaw JobID "
    "MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode "
    "MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask MinCPU MinCPUNode MinCPUTask "
    "Nodelist NTasks Pids ReqCPUFreq ReqCPUFreqMin ReqCPUFreqMax ReqCPUFreqGov TRESUsageInAve TRESUsageInMax "
    "TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot "
    "TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode "
    "TRESUsageOutMinTask TRESUsageOutTot"
)


class StatLine(msgspec.Struct, frozen=True):
    job: JobInfo
    step: str
    record: StepRecord


_SHOWN: dict[str, Callable[[StatLine], str]] = {
    "JobID": lambda line: f"{line.job.id}.{line.step}",
    "NTasks": lambda line: str(line.record.tasks),
    "Nodelist": lambda line: compress(line.record.nodes, ordered=True),
}


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    listed = [value or "" for name, value in typed if name == "jobs"]
    for text in listed:
        _require_ids(text)
    if "help" in said or "usage" in said:
        print("Usage: sstat [options] -j <job(.stepid)>")
        return 0
    if "helpformat" in said:
        names = _ORDER.split()
        for at in range(0, len(names), 4):
            print("".join(name.ljust(20) for name in names[at : at + 4]).rstrip())
        return 0
    for text in arguments[:1]:
        _require_ids(text)
    if "format" in said:  # the fields of several -o are joined
        said["format"] = ",".join(value or "" for name, value in typed if name == "format")
    asked = ",".join(filter(None, [*listed, *arguments[:1]]))
    columns = _columns(said)
    if not asked:
        raise Usage("sstat: error: You didn't give me any jobs to stat.")
    shown = [column for _, column in columns]
    show(shown, [], said)
    api = ApiClient.open()
    for one in asked.split(","):
        for line in _lines(api, one, every="allsteps" in said):
            row = [_SHOWN[name](line) if name in _SHOWN else "" for name, _ in columns]
            show(shown, [row], {**said, "noheader": None})
    return 0


def _require_ids(text: str) -> None:
    """Raise Usage, with Slurm's message, if a list of job ids is invalid."""
    for one in filter(None, text.split(",")):
        base, under, task = one.partition(".")[0].partition("_")
        if not one[:1].isdecimal():
            raise Usage(f"sstat: fatal: Bad job/step specified: {one}")
        if under and not task[:1].isdecimal():
            raise Usage(f"sstat: fatal: Bad job array element specified: {base}")


def _lines(api: ApiClient, text: str, *, every: bool) -> list[StatLine]:
    """Return the lines about the step that the id `text` names. If the id names only a job, return the line of its
    first step or, with `every`, the lines of the script and of all steps."""
    base, _, step = text.partition(".")
    try:
        asked = Chosen(ids=tuple(read_ids(base)))
    except NoJob:
        raise Usage(f"sstat: fatal: Bad job/step specified: {text}") from None
    found = [job for job in jobs(api, asked.numbers) if asked.has(job) and job.state in ("RUNNING", "SUSPENDED")]
    number = base.partition("_")[0]  # in Slurm's message about a task, the number is that of the array
    if not found:
        waits = base == "0" or any(asked.has(job) for job in jobs(api, asked.numbers, places=False) if job.live)
        if waits and step:
            say(f"sstat: error: StepId={number}.{step} not found running.")
        else:
            what = "No steps running" if waits else "couldn't get steps"
            say(f"sstat: error: {what} for job {number}")
        return []
    lines: list[StatLine] = []
    for job in found:
        running = {str(number): record for number, record in job.steps.items() if record.end_s is None}
        if job.ask.kind == BATCH and (every or step == "batch"):
            running = {"batch": StepRecord(name="batch", nodes=list(job.nodes[:1])), **running}
        wanted = [step] if step else list(running) if every else list(running)[:1]
        if os.getuid() not in (0, job.ask.uid):  # the steps of other users are not shown
            hidden = StepRecord(name="", nodes=list(job.nodes[:1]))
            _refuse(job, wanted[0] if wanted else "0", running.get(wanted[0] if wanted else "", hidden))
            continue
        if not set(wanted) <= set(running) or not wanted:
            say(
                f"sstat: error: StepId={text} not found running."
                if step
                else f"sstat: error: No steps running for job {number}"
            )
            continue
        lines += [StatLine(job, name, running[name]) for name in wanted]
    return lines


def _refuse(job: JobInfo, step: str, record: StepRecord) -> None:
    node = record.nodes[0] if record.nodes else ""
    say(f"sstat: error: slurm_job_step_stat: there was an error with the request to {node} rc = Invalid user id")
    say(f"sstat: error: problem getting step_layout for StepId={job.id}.{step}: Invalid user id")


def _columns(said: Mapping[str, str | None]) -> list[tuple[str, Printed]]:
    if "pidformat" in said and "format" in said:
        _columns({"format": said["format"]})  # raises Usage for a wrong --format
    text = "JobID,Nodelist,Pids" if "pidformat" in said else said.get("format")
    if text is None:
        found = list(_WIDTHS.items())
    else:
        every = {**_WIDTHS, **_MORE}
        words = ",".join(word.lstrip() for word in text.split(","))
        found = chosen(words, {name: every[name] for name in _ORDER.split()}, _unknown)
    return [(name, Printed(name, width, name == "NTasks")) for name, width in found]


def _unknown(word: str) -> Usage:
    return Usage(f'sstat: error: Invalid field requested: "{word}"')
