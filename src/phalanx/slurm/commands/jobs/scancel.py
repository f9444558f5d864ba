"""scancel: cancel jobs, or send signals to jobs and steps."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.control import running
from phalanx.slurm.control.cancelling import cancel_all
from phalanx.slurm.jobs.chosen import Chosen, Id, NoJob, chosen, is_user, read_ids, read_states
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.notation.signals import number_of
from phalanx.slurm.options import OptionReader, Usage, declare, require_cluster, say

OPTIONS = declare(
    "account,A= batch,b ctld cluster|clusters,M= full,f help hurry,H interactive,i jobname|name,n= me nodelist,w= "
    "partition,p= qos,q= quiet,Q reservation,R= sibling= signal,s= state,t= usage user,u= verbose,v version,V wckey="
)
_READER = OptionReader("scancel", OPTIONS)
_DENIED = 210  # exit code if the caller may not cancel the job: the lowest byte of Slurm's error number


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words, _check)
    said: dict[str, str | None] = dict(typed)
    if (last := [name for name, _ in typed if name in ("user", "me")][-1:]) and {"user", "me"} <= said.keys():
        del said["me" if last == ["user"] else "user"]
    if "help" in said or "usage" in said:
        print("Usage: scancel [OPTIONS] [job_id[_array_id][.step_id]]")
        return 0
    level = 0  # as in Slurm, --quiet cancels earlier --verbose options
    for name, _ in typed:
        level = -1 if name == "quiet" else level + (name == "verbose")
    named = said.get("signal")
    signal = ("TERM" if named is None else named).upper()
    number = number_of(signal) or 0
    states = _states(said.get("state"))
    words = [part for argument in arguments for part in re.split(r",(?![^\[]*\])", argument) if part]
    steps = [word for word in words if _STEP.fullmatch(word)]
    asked = _asked(said, [word for word in words if word not in steps], states)
    if (user := said.get("user")) is not None and not is_user(user):
        raise Usage(f"scancel: error: Invalid user name: {user}")
    filters = [name for name in _FILTERS if name in said]
    if asked == Chosen() and not steps and not filters:
        raise Usage("scancel: error: No job identification provided")
    api = ApiClient.open()
    call = ScancelCall(api=api, said=said, level=level, number=number, ends="signal" not in said or number == 9)
    if steps:
        return max(_step(call, word, asked) for word in steps)
    if not filters and not {"signal", "batch", "interactive"} & said.keys():
        return max(_end(call, word) for word in words)
    there = [job for job in jobs(api, asked.numbers, live=True) if job.live]
    gone = [one for one in _names(asked) if not any(Chosen(ids=(one,)).has(job) for job in there)]
    for one in gone if level >= 0 else ():
        say(f"scancel: error: Kill job error on job id {_id(one)}: {_UNKNOWN}")
    found = [job for job in there if asked.has(job) and _is_of(job, said)]
    if filters and not found and level > 0:
        say(f"scancel: error: No active jobs match ALL job filters, including: {_told(said, states)}")
    if "interactive" in said:
        found = [job for job in found if _confirmed(job)]
    codes = _end_lines(call, found) if found else []
    return max(int(bool(gone)), *codes, 0)


def _check(typed: Sequence[tuple[str, str | None]]) -> None:
    """Raise Usage if the value of the last option is invalid. `typed`: the options so far."""
    name, value = typed[-1]
    if name == "signal" and number_of((value or "").upper()) is None:
        raise Usage(f"Unknown job signal: {value}")
    if name == "state":
        _states(value)
    elif name == "clusters":
        require_cluster("scancel", value or "", site.load(ApiClient.open()).cluster)


class ScancelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of scancel. `said`: its options. `level`: how much is reported: -1 with --quiet, otherwise the number of
    --verbose options. `number`: the number of the signal. `ends`: True if the call ends jobs, without --signal or with
    SIGKILL."""

    api: ApiClient
    said: Mapping[str, str | None]
    level: int
    number: int
    ends: bool

    def verbose(self, text: str) -> None:
        if self.level > 0:
            say(f"scancel: {text}")


def _names(asked: Chosen) -> list[Id]:
    """Return the ids that the user named. As in Slurm, each named task of an array counts as an id."""
    split = [[Id(number=one.number, tasks=frozenset({task})) for task in sorted(one.tasks or ())] for one in asked.ids]
    return [each for one, parts in zip(asked.ids, split, strict=True) for each in (parts or [one])]


def _id(one: Id) -> str:
    return f"{one.number}_{min(one.tasks)}" if one.tasks is not None else str(one.number)


def _end(call: ScancelCall, word: str) -> int:
    """Cancel the jobs of one id, and return the exit code. `word`: the id as the user typed it. As in Slurm, an id
    whose job does not exist or has ended is only reported with --verbose."""
    asked = Chosen(ids=tuple(read_ids(word)))
    kind = "full " if "full" in call.said else ""
    call.verbose(f"Terminating {kind}job {word}")
    there = [job for job in jobs(call.api, asked.numbers, live=True) if job.live]
    found = [job for job in there if asked.has(job)]
    over = [] if found else _over(asked)
    if found and all(job.state == "COMPLETING" for job in found):
        found, over = [], found
    status, why = 0, ""
    if "sibling" in call.said and (found or over or _recorded(asked)):
        status, why = _NOT_FEDERATED, "Not a valid federated job"
    elif any(one.offset == 0 for one in asked.ids) and any(job.ask.het is None for job in there or over):
        status, why = _NOT_HET, "Job not heterogeneous job"
    elif found:
        return _cancel(call.api, found, now=False, alone=any(one.offset for one in asked.ids), word=word)
    elif any(os.getuid() not in (0, job.ask.uid) and (job.end_s or 0) > time.time() - _KEPT_S for job in over):
        status, why = _DENIED, "Access/permission denied"
    elif call.level > 0:
        why = "Job/step already completing or completed" if over else _UNKNOWN
    if why:
        say(f"scancel: error: Kill job error on job id {word}: {why}")
    return status


def _over(asked: Chosen) -> list[JobInfo]:
    """Return those ended jobs with the id of the call that Slurm would still have in memory. If several tasks of an
    array were cancelled together before they started, Slurm has one record for all of them, and none for a single
    task."""
    found = _recorded(asked)
    if any(one.tasks is None for one in asked.ids):
        return found
    every = _recorded(Chosen(ids=tuple(Id(number=one.number) for one in asked.ids)))
    together = [int(job.end_s or 0) for job in every if not job.nodes]
    return [job for job in found if job.ask.task is None or job.nodes or together.count(int(job.end_s or 0)) == 1]


def _end_lines(call: ScancelCall, found: Sequence[JobInfo]) -> list[int]:
    """Cancel or signal the jobs, and return the exit codes. Process pending jobs first, then the others in the order of
    squeue."""
    kind = "batch " if "batch" in call.said else "full " if "full" in call.said else ""
    what = f"Signal {call.number} to" if "signal" in call.said else "Terminating"
    order = sorted(found, key=lambda job: (job.state != "PENDING", job.base, job.ask.task or 0))
    lines = shown_together([msgspec.structs.replace(job, others=[]) for job in order])
    for job in lines:
        call.verbose(f"{what} {kind}job {job.id}")
    if "sibling" in call.said:
        for job in lines:
            say(f"scancel: error: Kill job error on job id {job.id}: Not a valid federated job")
        return [_NOT_FEDERATED]
    # A pending job has no script that could get a signal, so it is cancelled even with --batch.
    ends = [job for job in order if call.ends and ("batch" not in call.said or job.state == "PENDING")]
    waits = [job for job in lines if job.state == "PENDING"]
    runs = [job for job in order if job.state != "PENDING"]
    codes = [_signal(call, job) for job in (*waits, *runs) if job.number not in {one.number for one in ends}]
    return [*codes, _cancel(call.api, ends, now="signal" in call.said, alone=False) if ends else 0]


_STEP = re.compile(r"(\d+)\.(\d+|batch)")
_FILTERS = ("account", "name", "nodelist", "partition", "qos", "reservation", "state", "user", "me", "wckey")


def _told(said: Mapping[str, str | None], states: Iterable[str]) -> str:
    """Return the filters of the call as Slurm's message lists them."""
    words = {_SHOWN.get(name, name): said[name] or "" for name in _FILTERS if name in said}
    if "me" in said:
        words["user_name"] = str(os.getuid())
    if "state" in said:
        words["state"] = next(iter(states))
    return "".join(f"{name}={words[name]} " for name in sorted(words))


_SHOWN = {"name": "job_name", "user": "user_name", "me": "user_name"}
_NOT_HET, _NOT_FEDERATED = 58, 191


def _is_of(job: JobInfo, said: Mapping[str, str | None]) -> bool:
    """Return whether the job has the reservation and the wckey that the options name."""
    wanted = {"reservation": job.ask.reservation, "wckey": job.ask.wckey}
    return all(said.get(name) is None or (own and own == said[name]) for name, own in wanted.items())


def _confirmed(job: JobInfo) -> bool:
    print(f"Cancel job_id={job.id} name={job.ask.name} partition={job.ask.partition} [y/n]? ", end="", flush=True)
    return sys.stdin.readline().strip().lower().startswith("y")


def _step(call: ScancelCall, word: str, asked: Chosen) -> int:
    """Send the signal to a step if its job matches the other options. Return the exit code. `word`: the id of the step,
    such as `12.0`, or `12.batch` for the script. `asked`: the selection by the options."""
    base, _, name = word.partition(".")
    there = [job for job in jobs(call.api, [int(base)], live=True) if job.live and int(base) in (job.number, job.first)]
    if not there and call.level >= 0:
        say(f"scancel: error: Kill job error on job step id {word}: {_UNKNOWN}")
    found = [job for job in there if asked.has(job) and _is_of(job, call.said)]
    if not found and call.level > 0 and any(name in call.said for name in _FILTERS):
        states = _states(call.said.get("state"))
        say(f"scancel: error: No active jobs match ALL job filters, including: {_told(call.said, states)}")
    if not there:
        return 1
    codes = [0]
    for job in found:
        if job.state in ("RUNNING", "SUSPENDED"):  # as in Slurm, steps of pending jobs are ignored
            call.verbose(f"Terminating step {word}" if call.ends else f"Signal {call.number} to step {word}")
            status, why = _signal_step(call, job, name)
            codes.append(status)
            if why:
                say(f"scancel: error: Kill job error on job step id {base}: {why}")
    return max(codes)


def _signal_step(call: ScancelCall, job: JobInfo, name: str) -> tuple[int, str]:
    """Send the signal to a step of the job. Return the exit code, and the reason if no signal was sent."""
    running_now = [str(one) for one, step in job.steps.items() if step.end_s is None]
    if not running.may(call.api, job):
        return _DENIED, "Access/permission denied"
    if name != "batch" and name not in running_now:
        # As in Slurm, a signal by --signal to an unknown step is not reported as an error.
        return (0, "") if "signal" in call.said else (_NO_STEP, _UNKNOWN)
    if name != "batch" and running_now != [name]:
        # The step daemons send a signal to all steps of a job. So a step cannot get a signal alone if the job has
        # several steps.
        return 1, "Invalid job step id"
    running.send(call.api, job, call.number, running.SCRIPT if name == "batch" else running.STEPS)
    return 0, ""


def _recorded(asked: Chosen) -> list[JobInfo]:
    """Return the jobs in the ledger that match these ids."""
    from phalanx.slurm.jobs.ended import recorded_of

    return [job for job in recorded_of(asked.numbers or []) if asked.has(job)]


_UNKNOWN = "Invalid job id specified"
_NO_STEP, _NOT_NOW = 225, 228  # exit codes for an unknown step, and for a job in another state: as in Slurm
_KEPT_S = 300.0  # Slurm's default of MinJobAge


def _signal(call: ScancelCall, job: JobInfo) -> int:
    """Send the signal to the steps of the job; with --batch to its script instead, with --full to both. Return the exit
    code."""
    what = running.SCRIPT if "batch" in call.said else running.ALL if "full" in call.said else running.STEPS
    if not running.may(call.api, job):
        say(f"scancel: error: Kill job error on job id {job.number}: Access/permission denied")
        return _DENIED
    if job.state not in ("RUNNING", "SUSPENDED"):
        say(f"scancel: error: Kill job error on job id {job.id}: Job can not be altered now, try again later")
        return _NOT_NOW
    try:
        running.send(call.api, job, call.number, what)
    except (PhalanxError, OSError) as error:
        if call.number == 15:  # without a step daemon in the pods, Phalanx can only end the job
            return _cancel(call.api, [job], now=False, alone=False)
        say(f"scancel: error: Kill job error on job id {job.number}: {error}")
        return 1
    return 0


def _states(text: str | None) -> frozenset[str]:
    """Return the state that --state names; empty without the option. As in Slurm, a list of states is refused. Raises
    Usage."""
    if text is None:
        return frozenset()
    try:
        states = frozenset[str]() if "," in text or text.lower() == "all" else read_states(text) or frozenset()
    except KeyError:
        states = frozenset()
    if not states:
        valid = "Valid job states are PENDING, RUNNING, and SUSPENDED"
        raise Usage(f"Invalid job state specified: {text}\n{valid}")
    return states


def _asked(said: Mapping[str, str | None], arguments: Sequence[str], states: frozenset[str]) -> Chosen:
    ids = []
    for argument in arguments:
        try:
            ids += read_ids(argument)
        except NoJob:
            raise Usage(f"scancel: error: Invalid job id {argument}") from None
    if any(one.number == 0 for one in ids):
        raise Usage("scancel: error: Invalid job id 0")
    # As in Slurm, the value of each of these options is one name, even if it has commas.
    whole = {name: said[name] for name in ("account", "partition", "qos", "name") if name in said}
    one = {name: frozenset({(text or "").lower() if name == "account" else text or ""}) for name, text in whole.items()}
    asked = chosen({name: text for name, text in said.items() if name not in whole}, states)
    return Chosen(
        ids=tuple(ids), users=asked.users, accounts=one.get("account", asked.accounts),
        partitions=one.get("partition", asked.partitions), qos=one.get("qos", asked.qos),
        names=one.get("name", asked.names), states=asked.states, nodes=asked.nodes,
    )  # fmt: skip


def _may_go(api: ApiClient, job: JobInfo, *, alone: bool) -> str:
    """Return the reason why the caller may not cancel the job; "" if the caller may cancel it. `alone`: True if the
    caller named one component of a heterogeneous job."""
    if job.ask.het_offset and job.state == "PENDING" and alone:
        return "Operation not permitted on individual component of heterogeneous job"
    return "" if running.may(api, job) else "Access/permission denied"


def _cancel(api: ApiClient, found: Sequence[JobInfo], *, now: bool, alone: bool, word: str = "") -> int:
    """Cancel the jobs, and return the exit code. `now`: True to end them without a grace period. `alone`: True if the
    caller named one component of a heterogeneous job. `word`: the id as the user typed it; "" if options selected the
    jobs."""
    whys = {job.number: _may_go(api, job, alone=alone) for job in found}
    going = [job for job in found if not whys[job.number]]
    denied = [job for job in found if whys[job.number]]
    for job in shown_together(sorted(denied, key=lambda job: (job.base, job.ask.task or 0)))[: 1 if word else None]:
        say(f"scancel: error: Kill job error on job id {word or job.id}: {whys[job.number]}")
    stay: list[JobInfo] = []

    def refused(job: JobInfo, error: RequestRefused) -> None:
        say(f"scancel: error: Kill job error on job id {job.number}: {error.message}")
        stay.append(job)

    cancel_all(api, going, refused, now=now)
    return _DENIED if len(going) < len(found) or stay else 0
