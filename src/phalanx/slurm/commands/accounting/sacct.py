"""sacct: what ran, from the ledger: a line for each job, and one for its batch script."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api, Refused, Unreachable
from phalanx.slurm.cluster.ledger.book import ledger_url
from phalanx.slurm.jobs.ask import BATCH
from phalanx.slurm.jobs.chosen import Chosen, Id, NoJob, chosen, read_ids, read_states
from phalanx.slurm.jobs.ended import recorded, recorded_of
from phalanx.slurm.jobs.fields import nodelist
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import Job, jobs
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.notation.hostlist import compress
from phalanx.slurm.options import Reader, Usage, declare

OPTIONS = declare(
    "account,A= accounts= allclusters,L allocations,X allusers,a brief,b clusters,M= delimiter= duplicates,D "
    "endtime,E= format,o= help,h "
    "helpformat,e jobs,j= long,l name= nodelist,N= noheader,n parsable,p parsable2,P partition,r= qos,q= starttime,S= "
    "state,s= truncate,T units= noconvert user,u= uid= usage,U version,V"
) + declare(
    "array batch-script,B completion,c constraints,C= dbd env-vars federation file,f= "
    "flags,F= gid,g= group= json local ncpus,I= nnodes,i= reason,R= timelimit-max,K= timelimit-min,k= "
    "use-local-uid verbose,v wckeys,W= associations,x= yaml",
    refused=True,
)
_READER = Reader("sacct", OPTIONS, hint=False)
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
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")  # valid names of a job's group
_NAMED = 100  # fetch up to this many running jobs by number; beyond it, fetch all jobs
_FIELD = re.compile(r"([A-Za-z]+)(?:%(-?\d+))?")


class Line(msgspec.Struct, frozen=True):
    """A job, or a step of it (`batch`, or its number)."""

    job: Job
    step: str
    units: str
    record: StepRecord = msgspec.field(default_factory=StepRecord)


Show = Callable[[Line], str]


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    if "help" in said or "usage" in said:
        print("sacct [<OPTION>]")
        return 0
    if "helpformat" in said:
        _print_fields()
        return 0
    columns = _columns(said)
    try:
        read_states(said.get("state") or "ALL")
    except KeyError as error:
        raise Usage(f"sacct: fatal: unrecognized job state value '{error.args[0]}'") from None
    lines = _lines(said)
    _print(columns, lines, said)
    return 0


# --- which ----------------------------------------------------------------------------------------------------------


def _lines(said: dict[str, str | None]) -> list[Line]:
    ids = []
    steps: dict[int, str] = {}
    for part in re.split(r",(?![^\[]*\])", said.get("jobs") or ""):
        base, dot, step = part.partition(".")
        try:
            ids += read_ids(base)
        except NoJob:
            raise Usage(f"sacct: fatal: Bad job/step specified: {part}") from None
        if dot and base.isdigit():
            steps[int(base)] = step
    for user in (said.get("user") or "").split(",") if "user" in said else ():
        _require_user(user)
    window = _window(said, bool(ids))
    if not _is_here(said):
        return []
    if not ledger_url():
        raise Usage("sacct: error: there is no ledger here: set PHALANX_LEDGER or KUBECONFIG (docs/guide/slurm.md)")
    found = [job for job in _recorded(said, window, ids) if _wanted(job, said, window, bool(ids))]
    if ids:
        found = [job for job in found if Chosen(ids=tuple(ids)).has(job)]
    if "allocations" not in said:
        _look_up_steps([job for job in found if job.live and job.start_s is not None])
    units = "" if "noconvert" in said else (said.get("units") or "")
    lines: list[Line] = []
    for job in found:
        only = steps.get(job.number)
        if "duplicates" in said:
            lines += [Line(_run(job, start_s, end_s), "", units) for start_s, end_s in job.past]
            if job.state == "PENDING" and job.past:
                continue  # its next run is not one yet
        if only is None:
            lines.append(Line(job, "", units))
        if "allocations" not in said and job.start_s is not None:
            lines += [
                Line(job, name, units, record) for name, record in _steps(job).items() if only is None or only == name
            ]
    return lines


def _is_here(said: Mapping[str, str | None]) -> bool:
    """Return whether this cluster is among those asked for (`all` and `-1`: every one). Of another nothing is known."""
    names = (said.get("clusters") or "all").lower().split(",")
    return "allclusters" in said or "all" in names or "-1" in names or site.load(Api.open()).cluster.lower() in names


def _recorded(said: Mapping[str, str | None], window: tuple[float, float], ids: Sequence[Id]) -> list[Job]:
    """Return the selected jobs. The ledger filters as many rows as it can, because it may have millions of jobs."""
    if ids:
        return recorded_of([one.number for one in ids])
    return recorded(window[0], user=_only_user(said), until_s=window[1])


def _look_up_steps(running: Sequence[Job]) -> None:
    """Read the steps of running jobs from their objects, because the ledger records a job's steps only when the job has
    ended."""
    if not running:
        return
    numbers = {job.number - job.ask.het_offset for job in running}  # a heterogeneous job's first component has them all
    try:
        told = jobs(Api.open(), numbers if len(numbers) <= _NAMED else None, places=False)
    except (Refused, Unreachable):
        return  # where only the ledger can be read, it says what it knows
    steps = {job.number: job.steps for job in told}
    for job in running:
        of_all = steps.get(job.number - job.ask.het_offset, {})
        job.steps |= {number: one for number, one in of_all.items() if job.ask.het_offset in one.components}


def _only_user(said: Mapping[str, str | None]) -> str:
    """The one user whose jobs are meant; empty: those of several."""
    if "user" in said:
        name = said["user"] or ""
        if name.isdigit():
            try:
                return pwd.getpwuid(int(name)).pw_name
            except KeyError:
                return ""
        return name if _NAME.fullmatch(name) else ""
    own = "allusers" not in said and os.getuid() != 0
    name = pwd.getpwuid(os.getuid()).pw_name if own else ""
    return name if _NAME.fullmatch(name) else ""


def _run(job: Job, start_s: float, end_s: float | None) -> Job:
    """Return one that ended with a requeue."""
    return msgspec.structs.replace(job, state="REQUEUED", start_s=start_s, end_s=end_s, exit_code=0, signal=0, steps={})


def _steps(job: Job) -> dict[str, StepRecord]:
    """By name: the script, if it has one, and what srun started."""
    found: dict[str, StepRecord] = {}
    if job.ask.kind == BATCH and not job.ask.het_offset:
        found["batch"] = StepRecord(
            name="batch", cpus=job.ask.cpus_of_nodes[0], nodes=list(job.nodes[:1]), layout="Unknown",
            start_s=job.start_s or 0.0, end_s=job.end_s, code=job.exit_code if not job.signal else 0, signal=job.signal,
        )  # fmt: skip
    for number, record in job.steps.items():
        if record.end_s is None and not job.live:  # it was killed, and could not say so
            record = msgspec.structs.replace(record, end_s=job.end_s)
            if job.state == "OUT_OF_MEMORY":
                record.signal = job.signal
            else:
                record.cancelled = record.cancelled or "job"
        found[str(number)] = record
    return found


def _window(said: Mapping[str, str | None], by_id: bool) -> tuple[float, float]:
    """From when to when, in seconds since the epoch. Raises Usage."""
    now_s = time.time()
    start = _moment(said.get("starttime"), now_s)
    end = _moment(said.get("endtime"), now_s)
    if start is None:
        if by_id:
            start = 0.0
        elif said.get("state"):
            start = now_s if end is None else _midnight(now_s)
        else:
            start = _midnight(now_s)
    if end is None:
        end = now_s
    if start > end:
        raise Usage(
            f"sacct: error: Start time ({times.moment(start)}) requested is after end time ({times.moment(end)})."
        )
    return start, end


def _midnight(now_s: float) -> float:
    return times.read_moment("today", now_s)


def _moment(text: str | None, now_s: float) -> float | None:
    if text is None:
        return None
    try:
        return times.read_moment(text, now_s, past=True)
    except times.TimeError:
        raise Usage(f"Invalid time specification (pos=0): {text}") from None


def _wanted(job: Job, said: Mapping[str, str | None], window: tuple[float, float], by_id: bool) -> bool:
    named = dict(said)
    named["account"] = said.get("account") or said.get("accounts")
    named.pop("jobs", None)
    if "user" not in said and "allusers" not in said and not by_id and os.getuid() != 0:
        named["me"] = None
    if not chosen(named).has(job):
        return False
    text = said.get("state")
    if text:
        states = read_states(text)
        if states is not None and job.state not in states:
            return False
        if said.get("endtime") is None and (not job.live or job.eligible_s is None):
            return False  # without an end, those that are in that state at this moment are meant
    ends = job.end_s if job.end_s is not None else time.time()
    return ends >= window[0] and job.submit_s <= window[1]


def _require_user(user: str) -> None:
    try:
        pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except KeyError:
        raise Usage(f"sacct: error: Invalid user id: {user}") from None


# --- fields ---------------------------------------------------------------------------------------------------------


def _both(of_job: Callable[[Job], str], of_step: Callable[[StepRecord], str] | None = None) -> Show:
    """`of_step` None: a step has none."""
    return lambda line: of_job(line.job) if not line.step else "" if of_step is None else of_step(line.record)


def _all(of: Callable[[Job], str]) -> Show:
    return lambda line: of(line.job)


def _id(line: Line) -> str:
    return f"{line.job.id}.{line.step}" if line.step else line.job.id


def _raw(line: Line) -> str:
    return f"{line.job.number}.{line.step}" if line.step else str(line.job.number)


def _state(line: Line) -> str:
    job = line.job
    if line.step:
        by_limit = job.state == "TIMEOUT" and (line.step == "batch" or line.record.state == "CANCELLED")
        return "CANCELLED" if by_limit else line.record.state
    if job.state != "CANCELLED":
        return job.state
    return f"CANCELLED by {job.cancelled_by}" if job.cancelled_by else "CANCELLED"


def _exit(line: Line) -> str:
    """Of a cancelled job 0:0 is the allocation's, and the script's is that of its script."""
    if line.step:
        return "0:15" if line.job.state == "TIMEOUT" and line.step == "batch" else line.record.status
    return "0:0" if line.job.state == "CANCELLED" else line.job.status


def _derived(job: Job) -> str:
    """The highest of its steps'."""
    worst = max(job.steps.values(), key=lambda one: (one.code, one.signal), default=None)
    return worst.status if worst is not None else "0:0"


def _memory(mib: int, units: str) -> str:
    if not units:
        return amounts.memory(mib)
    factor = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}.get(units.upper(), 1)
    value = mib / factor
    return f"{int(value)}{units.upper()}" if value == int(value) else f"{value:.2f}{units.upper()}"


def _tres(line: Line, *, asked: bool = False) -> str:
    """Return the TRES that the job or step holds, or, if `asked`, requested."""
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


def _cpus(line: Line) -> str:
    if line.step:
        return str(line.record.cpus)
    return str(line.job.cpus) if line.job.start_s is not None else "0"


def _elapsed_s(line: Line) -> float:
    if not line.step:
        return line.job.elapsed_s
    end_s = line.record.end_s if line.record.end_s is not None else time.time()
    return max(0.0, end_s - line.record.start_s)


def _cpu_time_s(line: Line) -> int:
    return int(_elapsed_s(line)) * int(_cpus(line))


def _moments(of_job: Callable[[Job], float | None], of_step: Callable[[StepRecord], float | None]) -> Show:
    return lambda line: times.moment(of_step(line.record) if line.step else of_job(line.job), "Unknown")


def _total_cpu(line: Line) -> str:
    """Of a job: of its steps, as far as they were measured."""
    known = [line.record] if line.step else list(line.job.steps.values())
    used = [one.cpu_s for one in known if one.cpu_s is not None]
    if not used:
        return ""
    total_s = sum(used)
    return times.long_elapsed(total_s) if total_s >= 3600 else f"{int(total_s // 60):02}:{total_s % 60:06.3f}"


def _peak(step: StepRecord) -> str:
    return f"{step.peak_kib}K" if step.peak_kib is not None else ""


def _reserved(job: Job) -> str:
    begun = job.start_s if job.start_s is not None else time.time()
    return times.long_elapsed(begun - (job.eligible_s or job.submit_s))


def _nodelist(line: Line) -> str:
    if line.step:
        return compress(line.record.nodes, ordered=True)
    return nodelist(line.job) or "None assigned"


_FIELDS: dict[str, tuple[int, Show]] = {
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
    "Cluster": (10, _all(lambda job: site.load(Api.open()).cluster)),
    "Comment": (14, _both(lambda job: job.ask.comment)),
    "Constraints": (19, _both(lambda job: job.ask.features)),
    "CPUTime": (10, lambda line: times.long_elapsed(_cpu_time_s(line))),
    "CPUTimeRAW": (10, lambda line: str(_cpu_time_s(line))),
    "DerivedExitCode": (15, _both(_derived)),
    "Elapsed": (10, lambda line: times.long_elapsed(_elapsed_s(line))),
    "ElapsedRaw": (10, lambda line: str(int(_elapsed_s(line)))),
    "Eligible": (19, _moments(lambda job: job.eligible_s, lambda step: step.start_s)),
    "End": (19, _moments(lambda job: job.end_s, lambda step: step.end_s)),
    "ExitCode": (8, _exit),
    "GID": (6, _both(lambda job: str(job.ask.gid))),
    "Group": (9, _both(lambda job: job.ask.group)),
    "JobID": (12, _id),
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
    "Reason": (22, _both(lambda job: job.reason)),
    "ReqCPUS": (8, _both(lambda job: str(job.ask.cpus), lambda step: str(step.cpus))),
    "ReqMem": (10, lambda line: _memory(line.job.ask.total_mib, line.units) if not line.step else ""),
    "ReqNodes": (8, _all(lambda job: str(job.ask.node_count))),
    "ReqTRES": (10, lambda line: _tres(line, asked=True) if not line.step else ""),
    "Reservation": (20, _both(lambda job: job.ask.reservation)),
    "Reserved": (10, _both(_reserved)),
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
# Fields of Slurm that are not measured here: their columns are empty.
_EMPTY = (
    "AdminComment AssocID AveCPU AveDiskRead AveDiskWrite AvePages AveVMSize BlockID "
    "ConsumedEnergyRaw Container DBIndex Flags MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite "
    "MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSSNode MaxRSSTask MaxVMSize "
    "MaxVMSizeNode MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask QOSRAW "
    " ReservationId ResvCPU ResvCPURAW SystemComment SystemCPU TRESUsageInAve TRESUsageInMax "
    "TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot "
    "TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode "
    "TRESUsageOutMinTask TRESUsageOutTot UserCPU WCKeyID"
)
_FIELDS |= {name: (10, lambda line: "") for name in _EMPTY.split()}
# Frequencies cannot be requested here, and energy is not measured.
_FIELDS |= {
    f"ReqCPUFreq{what}": (13, _both(lambda job: "Unknown", lambda step: "0")) for what in ("", "Min", "Max", "Gov")
}
_FIELDS |= {name: (14, _both(lambda job: "", lambda step: "0")) for name in ("AveCPUFreq", "ConsumedEnergy")}
_LOWER = {name.lower(): name for name in _FIELDS}


def _columns(said: Mapping[str, str | None]) -> list[tuple[str, int]]:
    """(field, width): negative widths are left-aligned."""
    text = said.get("format") or ("" if {"brief", "long"} & {*said} else os.environ.get("SACCT_FORMAT", ""))
    if not text:
        text = LONG if "long" in said else BRIEF if "brief" in said else DEFAULT
        return [(name, -_FIELDS[name][0] if name == "JobID" else _FIELDS[name][0]) for name in text.split(",")]
    found: list[str] = []
    widths: dict[str, int] = {}
    for word in text.split(","):
        match = _FIELD.fullmatch(word)
        name = _LOWER.get(match[1].lower()) if match is not None else None
        if match is None or name is None:
            raise Usage(f'sacct: error: Invalid field requested: "{word.partition("%")[0]}"')
        if match[2]:  # the last width of a field counts for all its columns
            widths[name] = read_width(match[2])
        found.append(name)
    return [(name, widths.get(name, -_FIELDS[name][0] if name == "JobID" else _FIELDS[name][0])) for name in found]


def _print(columns: Sequence[tuple[str, int]], lines: Sequence[Line], said: Mapping[str, str | None]) -> None:
    rows = [[_FIELDS[name][1](line) for name, _ in columns] for line in lines]
    if "parsable" in said or "parsable2" in said:
        between = said.get("delimiter") or "|"
        after = between if "parsable" in said else ""
        if "noheader" not in said:
            rows.insert(0, [name for name, _ in columns])
        for row in rows:
            print(between.join(row) + after)
        return
    if "noheader" not in said:
        print("".join(_fit(name[: abs(width)], width) for name, width in columns))
        print("".join("-" * abs(width) + " " for _, width in columns))
    for row in rows:
        print("".join(_fit(text, width) for text, (_, width) in zip(row, columns, strict=True)))


def _fit(text: str, width: int) -> str:
    most = abs(width)
    cut = text if len(text) <= most else text[: most - 1] + "+"
    return (cut.ljust(most) if width < 0 else cut.rjust(most)) + " "


def _print_fields() -> None:
    """All that sacct(1) knows, four in a row."""
    names = sorted(_FIELDS, key=str.lower)
    for at in range(0, len(names), 4):
        print("".join(name.ljust(20) for name in names[at : at + 4])[:-1])
