"""sacct: show jobs and their steps from the ledger, the accounting database. There is a line for each job, and a line
for each of its steps."""

from __future__ import annotations

import grp
import os
import pwd
import re
import time
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient, RequestRefused, Unreachable
from phalanx.slurm.cluster.ledger import ledger_url
from phalanx.slurm.commands.accounting.sacct_fields import FIELDS, SacctLine, columns_of, eligible_s, flags
from phalanx.slurm.jobs.ask import BATCH
from phalanx.slurm.jobs.chosen import Chosen, Id, NoJob, chosen, read_ids, read_states
from phalanx.slurm.jobs.ended import recorded, recorded_of
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import expand
from phalanx.slurm.notation.printed import Printed, show
from phalanx.slurm.options import OptionReader, Usage, declare

OPTIONS = declare(
    "allusers,a accounts,A= allocations,X allclusters,L associations,x= brief,b batch-script,B completion,c "
    "constraints,C= cluster|clusters,M= delimiter= duplicates,D endtime,E= env-vars federation file,f= flags,F= "
    "fields|format,o= gid|group,g= helpformat,e help,h jobs,j= json local long,l name= nnodes,i= ncpus,I= nodelist,N= "
    "noconvert noheader,n parsable,p parsable2,P partition,r= qos,q= reason= state,s= starttime,S= timelimit-min,k= "
    "timelimit-max,K= truncate,T units= uid|user,u= use-local-uid usage,U verbose,v version,V wckeys,W= whole-hetjob=? "
) + declare("yaml", refused=True)
_READER = OptionReader("sacct", OPTIONS, hint=False)
# The possible names of the label with a job's group.
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAMED = 100  # up to this number of running jobs, each job is fetched by its number; otherwise all jobs are listed
_UNITS = "KMGTP"
_SPAN = re.compile(r"\s*\+?(\d+)(?:-(\d+))?")
_REASONS = frozenset({
    "none", "waitingforscheduling", "priority", "dependency", "resources", "partitionnodelimit",
    "partitiontimelimit", "partitiondown", "partitioninactive", "jobheldadmin", "jobhelduser", "begintime",
    "licenses", "reservation", "nodedown", "frontenddown", "badconstraints", "systemfailure", "joblaunchfailure",
    "nonzeroexitcode", "timelimit", "inactivelimit", "invalidaccount", "invalidqos", "cleaning", "prolog",
    "reqnodenotavail", "dependencyneversatisfied", "jobarraytasklimit", "burstbufferresources", "nodenotavail",
    "deadline", "launchfailedrequeuedheld", "jobholdmaxrequeue", "reservationdeleted",
})  # fmt: skip
_LIMITS = ("assoc", "qos")  # the beginnings of reasons about limits, such as AssocGrpCpuLimit
_FLAGS = {"schedsubmit", "schedmain", "schedbackfill", "startrecieved", "none"}


def run(words: Sequence[str]) -> int:
    typed, rest = _READER.read(words, lambda typed: _require_readable(dict(typed[-1:])))
    said = _together(typed)
    if rest:
        raise Usage("\n".join(["sacct: error: Unknown arguments:", *(f"sacct: error:  {one}" for one in rest)]))
    if "help" in said or "usage" in said:
        print("Usage: sacct [options]\n" + " ".join(f"--{one.spelled}" for one in OPTIONS if not one.refused))
        return 0
    if "helpformat" in said:
        _print_fields()
        return 0
    said["account"] = said.get("accounts")
    if "jobs" not in said and ("batch-script" in said or "env-vars" in said):
        what = "job environment" if "env-vars" in said else "job scripts"
        raise Usage(f"sacct: fatal: When requesting {what} you must also request specific jobs with the '-j' option.")
    _window(said, "jobs" in said)  # an invalid period is reported before an unknown field
    columns = columns_of(said)
    if "completion" in said:
        raise Usage("Slurm job completion is disabled")
    if (file := said.get("file")) is not None and not os.path.isfile(file):
        raise Usage(f"{file} is not a valid file")
    lines = _lines(said)
    if "json" in said:
        from phalanx.slurm.commands.accounting.sacct_document import document

        print(document(site.load(ApiClient.open()).cluster, lines))
    elif "batch-script" in said or "env-vars" in said:
        _print_kept(lines, said)
    else:
        _print(columns, lines, said)
    return 0


_LISTS = ("accounts", "format", "group", "jobs", "name", "partition", "qos", "reason", "state", "user", "wckeys")


def _together(typed: Sequence[tuple[str, str | None]]) -> dict[str, str | None]:
    """Return the options by name. As in Slurm, the values of a list option that is given several times are joined; for
    other options, the last value is used."""
    said: dict[str, str | None] = {}
    for name, text in typed:
        before = said.get(name)
        said[name] = f"{before},{text}" if before and name in _LISTS else text
    return said


def _require_readable(said: Mapping[str, str | None]) -> None:
    """Raise Usage, with Slurm's message, if the value of an option is invalid."""
    for state in (said.get("state") or "").split(","):
        try:
            if state and read_states(state) is None:
                raise KeyError(state)
        except KeyError:
            raise Usage(f"sacct: fatal: unrecognized job state value '{state}'") from None
    units = said.get("units")
    if units is not None and (not units or units[0].upper() not in _UNITS):
        listed = f"Possible options are '{_UNITS}'"
        raise Usage(f"sacct: error: Invalid unit type '{units[:1]}'. {listed}\nsacct: fatal: Invalid unit type")
    for option, what in (("ncpus", "cpu"), ("nnodes", "node")):
        if said.get(option):
            _span(said[option] or "", what)
    if "" in (said.get("group"), said.get("user")):
        raise Usage("")  # Slurm prints no message
    for reason in filter(None, (said.get("reason") or "").split(",")):
        if reason.lower() not in _REASONS and not reason.lower().startswith(_LIMITS):
            raise Usage(f"sacct: fatal: unrecognized job reason value '{reason}'")
    for option in ("timelimit-min", "timelimit-max"):
        _limit(said.get(option))
    for flag in filter(None, (said.get("flags") or "").split(",")):
        if flag.lower() not in _FLAGS:
            raise Usage(f"sacct: error: str_2_job_flags: Invalid job flag {flag}")
    for group in filter(None, (said.get("group") or "").split(",")):
        try:
            grp.getgrgid(int(group)) if group.isdecimal() else grp.getgrnam(group)
        except (KeyError, OverflowError):
            raise Usage(f"sacct: error: Invalid group id: {group}") from None
    if said.get("qos"):
        known = site.load(ApiClient.open()).qos
        if wrong := [one for one in (said["qos"] or "").split(",") if one and one not in known]:
            raise Usage(
                f"sacct: error: You gave a bad qos '{wrong[0]}'. Valid QOS's are {','.join(known)}\n"
                "sacct: fatal: problem processing qos list"
            )
    for user in filter(None, (said.get("user") or "").split(",")):
        _require_user(user)
    _named(dict(said))
    for option in ("starttime", "endtime"):
        _moment(said.get(option), time.time())


def _span(text: str, what: str) -> tuple[int, int]:
    """Return the lower and the upper end of a range of CPUs or nodes. `what`: `cpu` or `node`, for the error message.
    Raises Usage."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise Usage(f'sacct: error: Invalid numeric value "{text}" for requested {what} range.')
    return int(found[1]), int(found[2] or found[1])


def _limit(text: str | None) -> int | None:
    """Return a time limit in minutes; None if the option was not given. Raises Usage."""
    if not text:
        return None
    try:
        found = times.read_limit_min(text)
        if found == 0:
            raise times.TimeError(text)
    except times.TimeError:
        raise Usage("sacct: fatal: Invalid time limit specification") from None
    return found


def _print_kept(lines: Sequence[SacctLine], said: Mapping[str, str | None]) -> None:
    """Print NONE for the script or the environment of each job, as Slurm does without AccountingStoreFlags."""
    for line in lines:
        if not line.step and os.getuid() in (0, line.job.ask.uid):
            script = f"Batch Script for {line.job.id}"
            print(
                script if "batch-script" in said else f"Environment used for {line.job.id} (must be batch to display)"
            )
            print("-" * 80 + "\nNONE")


# --- which ----------------------------------------------------------------------------------------------------------


def _lines(said: dict[str, str | None]) -> list[SacctLine]:
    ids, steps = _named(said)
    window = _window(said, bool(ids))
    if not _is_here(said):
        return []
    found = [job for job in _recorded(said, window, ids) if _wanted(job, said, window, bool(ids))]
    # as in Slurm's accounting, pending tasks of an array with the same reason share a line
    found = shown_together(found)
    if ids:
        found = [job for job in found if _has(ids, job)]
    if "allocations" not in said:
        _look_up_steps([job for job in found if job.live and job.start_s is not None])
    units = "" if "noconvert" in said else (said.get("units") or "")
    lines: list[SacctLine] = []
    for job in found:
        only = steps.get(job.number)
        if "duplicates" in said:
            lines += [SacctLine(_run(job, start_s, end_s), "", units) for start_s, end_s in job.past]
            if job.state == "PENDING" and job.past:
                continue  # the job was requeued and has not started again, so it has no further line
        if only is None:
            lines.append(SacctLine(job, "", units))
        if "allocations" not in said and job.start_s is not None:
            lines += [
                SacctLine(job, name, units, record)
                for name, record in _steps(job).items()
                if only is None or only == name
            ]
    return lines


_PART = re.compile(r"(\d+)_\[")


def _named(said: dict[str, str | None]) -> tuple[list[Id], dict[int, str]]:
    """Return the job ids of -j, and the steps that it names: job number -> name of the step. Raises Usage."""
    ids: list[Id] = []
    steps: dict[int, str] = {}
    for part in re.split(r",(?![^\[]*\])", said.get("jobs") or ""):
        base, dot, step = part.partition(".")
        if match := _PART.match(base):
            raise Usage(f"sacct: fatal: Bad job array element specified: {match[1]}")
        try:
            ids += read_ids(base)
        except NoJob:
            raise Usage(f"sacct: fatal: Bad job/step specified: {part}") from None
        if dot and not (step.isdecimal() or step in _STEPS):
            raise Usage(f"sacct: fatal: Bad step specified: {base}")
        if dot and base.isdecimal():
            steps[int(base)] = step
    if any(one.number == 0 for one in ids):  # as in Slurm, job 0 stands for all jobs of all users
        said |= {"allusers": None, "starttime": said.get("starttime") or "1970-01-01"}
        said.pop("jobs")
        return [], steps
    return ids, steps


_STEPS = ("batch", "extern", "interactive")


def _has(ids: Sequence[Id], job: JobInfo) -> bool:
    """Return whether one of the ids names the job. An entry for several pending tasks is not named by the id of a
    single task."""
    return any(Chosen(ids=(one,)).has(job) for one in ids if one.tasks is None or not job.others)


def _is_here(said: Mapping[str, str | None]) -> bool:
    """Return whether the options -M and -L select this cluster. The values `all` and `-1` select every cluster. The
    ledger has no data of other clusters."""
    names = (said.get("clusters") or "all").lower().split(",")
    return (
        "allclusters" in said or "all" in names or "-1" in names or site.load(ApiClient.open()).cluster.lower() in names
    )


def _recorded(said: Mapping[str, str | None], window: tuple[float, float], ids: Sequence[Id]) -> list[JobInfo]:
    """Return candidates for the jobs that the options select; the caller must check each candidate against the options.
    The database query leaves out as many jobs as possible, because a ledger may have millions of jobs. `window`: the
    beginning and the end of the period."""
    if not ledger_url():  # without a ledger, only jobs whose objects still exist can be shown
        return jobs(ApiClient.open(), [one.number for one in ids] or None)
    if ids:
        return recorded_of([one.number for one in ids])
    return recorded(window[0], user=_only_user(said), until_s=window[1])


def _look_up_steps(running: Sequence[JobInfo]) -> None:
    """Add the steps of running jobs from their Job objects, because the ledger gets the steps of a job only when the
    job has ended."""
    if not running:
        return
    # The Job of the first component has the steps of all components.
    numbers = {job.number - job.ask.het_offset for job in running}
    try:
        told = jobs(ApiClient.open(), numbers if len(numbers) <= _NAMED else None, places=False)
    except (RequestRefused, Unreachable):
        return  # if the API server cannot be reached, only the steps in the ledger are shown
    steps = {job.number: job.steps for job in told}
    for job in running:
        of_all = steps.get(job.number - job.ask.het_offset, {})
        job.steps |= {number: one for number, one in of_all.items() if job.ask.het_offset in one.components}


def _only_user(said: Mapping[str, str | None]) -> str:
    """Return the name of the user if the options select only jobs of one user; "" otherwise."""
    if "user" in said:
        name = said["user"] or ""
        if name.isdecimal():
            try:
                return pwd.getpwuid(int(name)).pw_name
            except KeyError:
                return ""
        return name if _NAME.fullmatch(name) else ""
    own = "allusers" not in said and os.getuid() != 0
    name = pwd.getpwuid(os.getuid()).pw_name if own else ""
    return name if _NAME.fullmatch(name) else ""


def _run(job: JobInfo, start_s: float, end_s: float | None) -> JobInfo:
    """Return a copy of the job for the line about an earlier run that ended with a requeue."""
    return msgspec.structs.replace(job, state="REQUEUED", start_s=start_s, end_s=end_s, exit_code=0, signal=0, steps={})


def _steps(job: JobInfo) -> dict[str, StepRecord]:
    """Return the steps of a job: name -> record. The step `batch` is the script, if the job has one. Each srun adds a
    step."""
    found: dict[str, StepRecord] = {}
    if job.ask.kind == BATCH and not job.ask.het_offset:
        found["batch"] = StepRecord(
            name="batch", cpus=job.ask.cpus_of_nodes[0], nodes=list(job.nodes[:1]), layout="Unknown",
            start_s=job.start_s or 0.0, end_s=job.end_s, code=job.exit_code if not job.signal else 0, signal=job.signal,
        )  # fmt: skip
    for number, record in job.steps.items():
        if record.end_s is None and not job.live:  # srun was killed before it could record the end of the step
            record = msgspec.structs.replace(record, end_s=job.end_s)
            if job.state == "OUT_OF_MEMORY":
                record.signal = job.signal
            else:
                record.cancelled = record.cancelled or "job"
        found[str(number)] = record
    return found


def _window(said: Mapping[str, str | None], by_id: bool) -> tuple[float, float]:
    """Return the beginning and the end of the period, in seconds since the epoch. Raises Usage."""
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
        end = max(start, now_s) if said.get("state") else now_s
    if start > end:
        raise Usage(
            f"sacct: error: Start time ({times.moment(start)}) requested is after end time ({times.moment(end)})."
        )
    return start, end


def _midnight(now_s: float) -> float:
    return times.read_moment("today", now_s)


def _moment(text: str | None, now_s: float) -> float | None:
    if not text or not text.strip():
        return None
    try:
        return times.read_moment(text, now_s, past=True)
    except times.TimeError as error:
        raise Usage(f"Invalid time specification (pos={error.at}): {text}") from None


def _wanted(job: JobInfo, said: Mapping[str, str | None], window: tuple[float, float], by_id: bool) -> bool:
    named = {name: text for name, text in said.items() if text != "" or name == "user"}
    for option in ("jobs", *_BY_DATABASE):
        named.pop(option, None)
    if "user" not in said and "allusers" not in said and not by_id and os.getuid() != 0:
        named["me"] = None
    if not chosen(named).has(job) or not _fits(job, said) or not _is_named(job, said):
        return False
    text = said.get("state")
    if text:
        states = read_states(text)
        if states is not None and job.state not in states:
            return False
        if said.get("endtime") is None and (not job.live or job.eligible_s is None):
            return False  # without --endtime, --state selects jobs by their present state
    if by_id:
        return True
    since_s = eligible_s(job) if job.start_s is None else job.eligible_s or job.submit_s
    ends = job.end_s if job.end_s is not None else time.time()
    return ends >= window[0] and since_s is not None and since_s <= window[1]


# Options whose values Slurm's database compares without regard to case. An empty value matches no job.
_BY_DATABASE = ("partition", "name", "account", "qos", "nodelist", "flags")


def _is_named(job: JobInfo, said: Mapping[str, str | None]) -> bool:
    """Return whether the job matches the options of `_BY_DATABASE` and --reason."""
    own = {"partition": job.ask.partition, "name": job.ask.name, "account": job.ask.account, "qos": job.ask.qos}
    for option in _BY_DATABASE:
        text = said.get(option)
        if text is None:
            continue
        wanted = text.lower().split(",")
        if not text or (option in own and own[option].lower() not in wanted):
            return False
        if option == "nodelist" and not {*job.nodes} & {*expand(text)}:
            return False
    reasons = [one for one in (said.get("reason") or "").lower().split(",") if one]
    return not reasons or (job.reason if job.start_s is None else "None").lower() in reasons


def _fits(job: JobInfo, said: Mapping[str, str | None]) -> bool:
    """Return whether the job matches --group, --wckeys, --constraints and --flags, and the ranges of --ncpus, --nnodes
    and the time limits."""
    ask = job.ask
    groups, wckeys = said.get("group"), said.get("wckeys")
    if groups and not {ask.group, str(ask.gid)} & {*groups.split(",")}:
        return False
    if (wckeys and ask.wckey not in wckeys.split(",")) or said.get("associations"):
        return False  # Phalanx does not record the association ids of jobs
    if said.get("constraints") and ask.features != said["constraints"]:
        return False
    if wanted := said.get("flags"):
        own = {one.lower() for one in flags(job)}
        if not own & {one.lower() for one in wanted.split(",")}:
            return False
    # Tests with Slurm 22.05 show that it compares the number of tasks with the range of --ncpus.
    for option, what, amount in (("ncpus", "cpu", ask.tasks), ("nnodes", "node", ask.node_count)):
        if text := said.get(option):
            least, most = _span(text, what)
            if most and not least <= amount <= most:
                return False
    least_min, most_min = _limit(said.get("timelimit-min")), _limit(said.get("timelimit-max"))
    if least_min is None:
        return True  # --timelimit-max has no effect without --timelimit-min
    own_min = ask.limit_min if ask.limit_min is not None else 1 << 40
    return least_min <= own_min <= (most_min if most_min is not None else least_min)


def _require_user(user: str) -> None:
    try:
        pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        raise Usage(f"sacct: error: Invalid user id: {user}") from None


def _print(columns: Sequence[tuple[str, Printed]], lines: Sequence[SacctLine], said: Mapping[str, str | None]) -> None:
    rows = [[FIELDS[name][1](line) for name, _ in columns] for line in lines]
    delimiter = said.get("delimiter")
    show([column for _, column in columns], rows, said, "|" if delimiter is None else delimiter)


def _print_fields() -> None:
    """Print the names of all fields of sacct(1), four in a row."""
    names = sorted(FIELDS, key=str.lower)
    for at in range(0, len(names), 4):
        print("".join(name.ljust(20) for name in names[at : at + 4])[:-1])
