"""The fields of sacct: the text that each field shows for a job and for a step, and the columns that --format
selects."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import msgspec

from phalanx.slurm.cluster.site import cluster_name
from phalanx.slurm.jobs.fields import nodelist
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.notation.hostlist import compress
from phalanx.slurm.notation.printed import Printed, chosen
from phalanx.slurm.options import Usage

DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"
LONG = (
    "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,"
    "MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,"
    "NTasks,AllocCPUS,Elapsed,State,ExitCode,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,"
    "ReqMem,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite,"
    "MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,ReqTRES,AllocTRES,TRESUsageInAve,TRESUsageInMax,"
    "TRESUsageInMaxNode,TRESUsageInMaxTask,TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask,"
    "TRESUsageInTot,TRESUsageOutMax,TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutAve,TRESUsageOutTot"
)


class SacctLine(msgspec.Struct, frozen=True):
    """A line of sacct about a job or a step. `step`: the name of the step, which is `batch` or a number; "" if the line
    is about the job itself. `units`: the unit of --units; "" without it. `record`: the record of the step."""

    job: JobInfo
    step: str
    units: str
    record: StepRecord = msgspec.field(default_factory=StepRecord)


Show = Callable[[SacctLine], str]


def _both(of_job: Callable[[JobInfo], str], of_step: Callable[[StepRecord], str] | None = None) -> Show:
    """Return a field whose text is computed by `of_job` in lines about jobs, and by `of_step` in lines about steps. If
    `of_step` is None, the field is empty in lines about steps."""
    return lambda line: of_job(line.job) if not line.step else "" if of_step is None else of_step(line.record)


def _all(of: Callable[[JobInfo], str]) -> Show:
    return lambda line: of(line.job)


def _id(line: SacctLine) -> str:
    return f"{line.job.id}.{line.step}" if line.step else line.job.id


def _raw(line: SacctLine) -> str:
    return f"{line.job.number}.{line.step}" if line.step else str(line.job.number)


def _state(line: SacctLine) -> str:
    job = line.job
    if line.step:
        by_limit = job.state == "TIMEOUT" and (line.step == "batch" or line.record.state == "CANCELLED")
        return "CANCELLED" if by_limit else line.record.state
    if job.state != "CANCELLED":
        return job.state
    return f"CANCELLED by {job.cancelled_by}" if job.cancelled_by else "CANCELLED"


def _exit(line: SacctLine) -> str:
    """Return the exit code of the job or step. As in Slurm, a cancelled job has the exit code 0:0. The line about its
    script has the exit code of the script."""
    if line.step:
        return "0:15" if line.job.state == "TIMEOUT" and line.step == "batch" else line.record.status
    return "0:0" if line.job.state == "CANCELLED" else line.job.status


def _derived(job: JobInfo) -> str:
    """Return the exit code and signal of the step with the highest exit code."""
    worst = max(job.steps.values(), key=lambda one: (one.code, one.signal), default=None)
    return worst.status if worst is not None else "0:0"


def _memory(mib: int, units: str) -> str:
    if not units:
        return amounts.memory(mib)
    factor = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}.get(units.upper(), 1)
    value = mib / factor
    return f"{int(value)}{units.upper()}" if value == int(value) else f"{value:.2f}{units.upper()}"


def _tres(line: SacctLine, *, asked: bool = False) -> str:
    """Return the TRES of the job or step. `asked`: True for the requested amounts, False for the allocated amounts."""
    ask, step = line.job.ask, line.record
    of_job = ask if asked else line.job
    cpus, nodes, mib = of_job.cpus, ask.node_count, of_job.total_mib
    if line.step:
        cpus, nodes = step.cpus, max(1, len(step.nodes))
        mib = (ask.memory_mib or 0) * (cpus if ask.per_cpu else nodes)
    parts = {"cpu": str(cpus), "node": str(nodes)}
    if not line.step:
        parts["billing"] = str(of_job.cpus)
    if mib:
        parts["mem"] = _memory(mib, line.units)
    if ask.gpus_per_node:
        parts["gres/gpu"] = str(ask.total_gpus)
    return ",".join(f"{name}={parts[name]}" for name in sorted(parts))


def _cpus(line: SacctLine) -> str:
    """Return the number of CPUs that the job or step holds. For a job that has not started, return the requested
    number."""
    return str(line.record.cpus if line.step else line.job.cpus)


def elapsed_s(line: SacctLine) -> int:
    """Return the seconds between start and end. As in Slurm's accounting, both times are first rounded down to whole
    seconds."""
    of = line.record if line.step else line.job
    if not of.start_s or (not line.step and line.job.state == "PENDING"):
        return 0
    return max(0, int(of.end_s if of.end_s is not None else time.time()) - int(of.start_s))


def _cpu_time_s(line: SacctLine) -> int:
    return elapsed_s(line) * int(_cpus(line))


def _reserved_s(line: SacctLine) -> int:
    job = line.job
    begun = job.start_s if job.start_s is not None else job.end_s if job.end_s is not None else time.time()
    return 0 if line.step or job.eligible_s is None else max(0, int(begun) - int(job.eligible_s))


def flags(job: JobInfo) -> list[str]:
    """Return the flags of a job, in Slurm's spelling: SchedMain if the job was started, and StartRecieved."""
    return [*(["SchedMain"] if job.start_s is not None else []), "StartRecieved"]


def eligible_s(job: JobInfo) -> float | None:
    """Return the time from which the job was eligible: from then on, it waited only for capacity, quota or jobs before
    it. For a job with a begin time in the future, return the begin time."""
    if job.eligible_s is None and not job.held and not job.ask.dependency and job.reason == "BeginTime":
        return job.ask.begin_s
    return job.eligible_s


def _moments(of_job: Callable[[JobInfo], float | None], of_step: Callable[[StepRecord], float | None]) -> Show:
    return lambda line: times.moment(of_step(line.record) if line.step else of_job(line.job), "Unknown")


def _total_cpu(line: SacctLine) -> str:
    """Return the CPU time of a step, or, for a job, the sum of the CPU times of all steps that were measured."""
    known = [line.record] if line.step else list(line.job.steps.values())
    used = [one.cpu_s for one in known if one.cpu_s is not None]
    total_s = sum(used)
    if not total_s:
        return "00:00:00"
    return times.long_elapsed(total_s) if total_s >= 3600 else f"{int(total_s // 60):02}:{total_s % 60:06.3f}"


def _peak(step: StepRecord) -> str:
    return f"{step.peak_kib}K" if step.peak_kib is not None else ""


def _nodelist(line: SacctLine) -> str:
    if line.step:
        return compress(line.record.nodes, ordered=True)
    return nodelist(line.job) or "None assigned"


FIELDS: dict[str, tuple[int, Show]] = {
    "Account": (10, _all(lambda job: job.ask.account)),
    "AllocCPUS": (10, _cpus),
    "AllocNodes": (
        10,
        _both(
            lambda job: str(job.ask.node_count) if job.start_s is not None else "0",
            lambda step: str(max(1, len(step.nodes))),
        ),
    ),
    "AllocTRES": (10, lambda line: _tres(line) if line.job.start_s is not None else ""),
    "Cluster": (10, _all(lambda job: cluster_name(os.environ.get("KUBECONFIG")))),
    "Comment": (14, _both(lambda job: job.ask.comment or "")),
    "Constraints": (19, _both(lambda job: job.ask.features)),
    "CPUTime": (10, lambda line: times.long_elapsed(_cpu_time_s(line))),
    "CPUTimeRAW": (10, lambda line: str(_cpu_time_s(line))),
    "DerivedExitCode": (15, _both(_derived)),
    "Elapsed": (10, lambda line: times.long_elapsed(elapsed_s(line))),
    "ElapsedRaw": (10, lambda line: str(elapsed_s(line))),
    "Eligible": (19, _moments(eligible_s, lambda step: step.start_s)),
    "End": (19, _moments(lambda job: job.end_s, lambda step: step.end_s)),
    "ExitCode": (8, _exit),
    "GID": (6, _both(lambda job: str(job.ask.gid))),
    "Group": (9, _both(lambda job: job.ask.group)),
    "JobID": (12, _id),
    "Flags": (20, _both(lambda job: ",".join(flags(job)))),
    "JobIDRaw": (12, _raw),
    "JobName": (10, _both(lambda job: job.ask.name, lambda step: step.name)),
    "Layout": (9, _both(lambda job: "", lambda step: step.layout)),
    "NCPUS": (10, _cpus),
    "NNodes": (8, _both(lambda job: str(job.ask.node_count), lambda step: str(max(1, len(step.nodes))))),
    "NodeList": (15, _nodelist),
    "NTasks": (8, _both(lambda job: "", lambda step: str(step.tasks))),
    "Partition": (10, _both(lambda job: job.ask.partition)),
    "Priority": (10, _both(lambda job: str(job.priority))),
    "QOS": (10, _both(lambda job: job.ask.qos)),
    "Reason": (22, _both(lambda job: job.reason if job.start_s is None else "None")),
    "ReqCPUS": (8, _both(lambda job: str(job.ask.cpus), lambda step: str(step.cpus))),
    "ReqMem": (10, lambda line: _memory(line.job.ask.total_mib, line.units) if not line.step else ""),
    "ReqNodes": (8, _all(lambda job: str(job.ask.node_count))),
    "ReqTRES": (10, lambda line: _tres(line, asked=True) if not line.step else ""),
    "Reservation": (20, _both(lambda job: job.ask.reservation)),
    "Reserved": (10, lambda line: "" if line.step else times.long_elapsed(_reserved_s(line))),
    "ResvCPU": (10, lambda line: "" if line.step else times.long_elapsed(_reserved_s(line) * int(_cpus(line)))),
    "ResvCPURAW": (10, lambda line: "" if line.step else str(_reserved_s(line) * int(_cpus(line)))),
    **dict.fromkeys(("SystemCPU", "UserCPU"), (10, lambda line: "00:00:00")),
    "WCKeyID": (8, _both(lambda job: "0")),
    "Start": (19, _moments(lambda job: job.start_s, lambda step: step.start_s)),
    "State": (10, _state),
    "Submit": (19, _moments(lambda job: job.submit_s, lambda step: step.start_s)),
    "SubmitLine": (20, _both(lambda job: job.ask.line, lambda step: step.line)),
    "MaxRSS": (10, _both(lambda job: "", _peak)),
    "AveRSS": (10, _both(lambda job: "", _peak)),
    "TotalCPU": (10, _total_cpu),
    "Suspended": (10, _all(lambda job: "00:00:00")),
    "Timelimit": (10, _both(lambda job: times.limit(job.ask.limit_min, long=True))),
    "TimelimitRaw": (12, _both(lambda job: "" if job.ask.limit_min is None else str(job.ask.limit_min))),
    "UID": (6, _both(lambda job: str(job.ask.uid))),
    "User": (9, _both(lambda job: job.ask.user)),
    "WCKey": (10, _all(lambda job: job.ask.wckey)),
    "WorkDir": (20, _both(lambda job: job.ask.workdir)),
}
# Fields of Slurm that Phalanx does not measure. Their columns are empty.
_EMPTY = (
    "AdminComment AssocID AveCPU AveDiskRead AveDiskWrite AvePages AveVMSize BlockID "
    "Container DBIndex MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite "
    "MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSSNode MaxRSSTask MaxVMSize "
    "MaxVMSizeNode MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask QOSRAW "
    " ReservationId SystemComment TRESUsageInAve TRESUsageInMax "
    "TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot "
    "TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode "
    "TRESUsageOutMinTask TRESUsageOutTot"
)
FIELDS |= {name: (10, lambda line: "") for name in _EMPTY.split()}
# Phalanx does not support requests for CPU frequencies, and does not measure energy.
FIELDS |= {
    f"ReqCPUFreq{what}": (13, lambda line: "0" if line.step == "batch" else "Unknown")
    for what in ("", "Min", "Max", "Gov")
}
FIELDS |= {name: (14, _both(lambda job: "", lambda step: "0")) for name in ("AveCPUFreq", "ConsumedEnergy")}
FIELDS |= {"ConsumedEnergyRaw": (17, _both(lambda job: "", lambda step: "0"))}
# field -> its width, if it differs from the width in `FIELDS`
_WIDTHS = {
    "JobID": -12, "JobIDRaw": -12, "AdminComment": 15, "AssocID": 7, "AveCPUFreq": 10, "AveDiskRead": 14,
    "AveDiskWrite": 14, "BlockID": 16, "Container": 19, "Flags": 19, "MaxDiskRead": 12, "MaxDiskReadNode": 15,
    "MaxDiskReadTask": 15, "MaxDiskWrite": 12, "MaxDiskWriteNode": 16, "MaxDiskWriteTask": 16, "MaxPages": 8,
    "MaxPagesNode": 12, "MaxPagesTask": 14, "MaxVMSizeNode": 14, "MaxVMSizeTask": 14, "McsLabel": 12, "QOSRAW": 6,
    "ReqCPUFreq": 10, "ReservationId": 8, "SystemComment": 15, "TimelimitRaw": 10, "TRESUsageInAve": 14,
    "TRESUsageInMax": 14, "TRESUsageInMaxNode": 18, "TRESUsageInMaxTask": 18, "TRESUsageInMin": 14,
    "TRESUsageInMinNode": 18, "TRESUsageInMinTask": 18, "TRESUsageInTot": 14, "TRESUsageOutAve": 15,
    "TRESUsageOutMax": 15, "TRESUsageOutMaxNode": 19, "TRESUsageOutMaxTask": 19, "TRESUsageOutMin": 15,
    "TRESUsageOutMinNode": 19, "TRESUsageOutMinTask": 19, "TRESUsageOutTot": 15, "WCKeyID": 10,
}  # fmt: skip
# An abbreviated name selects the first field in this order that begins with it.
FIELDS = dict(sorted(FIELDS.items(), key=lambda one: one[0].lower()))
_WIDTHS = {name: _WIDTHS.get(name, width) for name, (width, _) in FIELDS.items()}
_WHOLE = frozenset({
    "AllocCPUS", "AllocNodes", "AssocID", "CPUTime", "CPUTimeRAW", "DBIndex", "Elapsed", "ElapsedRaw", "GID",
    "NCPUS", "NNodes", "NTasks", "Priority", "QOSRAW", "ReqCPUS", "ReqNodes", "Reserved", "ResvCPU", "ResvCPURAW",
    "Suspended", "UID", "WCKeyID",
})  # fmt: skip
_MOMENTS = frozenset(["Eligible", "End", "Start", "Submit"])


def columns_of(said: Mapping[str, str | None]) -> list[tuple[str, Printed]]:
    """Return the names of the selected fields, each with its column. Raises Usage."""
    text = said.get("format")
    if text is None and not {"brief", "long"} & {*said}:
        text = os.environ.get("SACCT_FORMAT") or None
    if "long" in said:
        if text is not None:
            raise Usage(
                "sacct: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry."
            )
        text = f"{BRIEF},{LONG}" if "brief" in said else LONG
    elif "brief" in said:
        text = BRIEF if text is None else f"{text},{BRIEF}"
    elif text is None:
        text = DEFAULT
    found = chosen(_spelled_out(text), _WIDTHS, _unknown, zero=True)
    return [(name, Printed(name, width, name in _WHOLE, name in _MOMENTS)) for name, width in found]


def _unknown(word: str) -> Usage:
    return Usage(f'sacct: error: Invalid field requested: "{word}"')


def _spelled_out(text: str) -> str:
    """Return the format with `all` replaced by the names of all fields. A width after `all` applies to each field. A
    width without a name is treated like `all` with this width."""
    words = []
    for word in text.split(","):
        name, percent, width = word.strip().partition("%")
        every = "all".startswith(name.lower()) and (name or percent) and len(name) in (0, 3)
        words += [f"{one}{percent}{width}" for one in FIELDS] if every else [word]
    return ",".join(words)
