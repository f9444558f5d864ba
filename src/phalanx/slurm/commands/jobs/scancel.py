"""scancel: end jobs, or take them out of the queue."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api, Refused
from phalanx.slurm.control import running
from phalanx.slurm.control.cancelling import cancel_all
from phalanx.slurm.jobs.chosen import Chosen, Id, NoJob, chosen, is_user, read_ids, read_states
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.view import Job, jobs
from phalanx.slurm.notation.signals import number_of
from phalanx.slurm.options import OptionReader, Usage, declare, require_cluster, say

OPTIONS = declare(
    "account,A= batch,b ctld cluster|clusters,M= full,f help hurry,H interactive,i jobname|name,n= me nodelist,w= "
    "partition,p= qos,q= quiet,Q reservation,R= sibling= signal,s= state,t= usage user,u= verbose,v version,V wckey="
)
_READER = OptionReader("scancel", OPTIONS)
_DENIED = 210  # what Slurm ends with where it may not: its error's number, as far as an exit code holds it
_ENDING = ("TERM", "SIGTERM", "15", "KILL", "SIGKILL", "9")


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    if "help" in said or "usage" in said:
        print("Usage: scancel [OPTIONS] [job_id[_array_id][.step_id]]")
        return 0
    named = said.get("signal")
    signal = ("TERM" if named is None else named).upper()
    number = number_of(signal)
    if number is None:
        raise Usage(f"Unknown job signal: {named}")
    states = _states(said.get("state"))
    steps = [word for word in arguments if _STEP.fullmatch(word)]
    asked = _asked(said, [word for word in arguments if word not in steps], states)
    for user in (value or "" for name, value in typed if name == "user"):
        if not is_user(user):
            raise Usage(f"scancel: error: Invalid user name: {user}")
    filtered = any(name in said for name in ("reservation", "wckey"))
    if asked == Chosen() and not steps and not filtered:
        raise Usage("scancel: error: No job identification provided")
    api = Api.open()
    if "clusters" in said:
        require_cluster("scancel", said["clusters"] or "", site.load(api).cluster)
    if steps:
        return max(_step(api, word, number, asked, said) for word in steps)
    found = [job for job in jobs(api, asked.numbers, live=True) if job.live and asked.has(job) and _is_of(job, said)]
    if "interactive" in said:
        found = [job for job in found if _confirmed(job)]
    if "sibling" in said and found:
        return _refused_siblings(found)
    filters = [name for name in _FILTERS if name in said]  # with filters, Slurm looks whether the job is there
    if "verbose" in said and (found or not filters):
        for one in asked.ids or [Id(number=job.number) for job in found]:
            say(f"scancel: Terminating job {one.number}")
    status = _refused_ids(asked, found, jobs(api, asked.numbers, places=False)) if asked.ids else 0
    # Slurm reports nothing when what is to end is not there.
    there = jobs(api, asked.numbers, places=False) if asked.ids else []
    told = signal not in _ENDING or bool({"verbose", "batch"} & said.keys())
    gone = _unmatched(asked, there) if filters else [str(one) for one in _missing(asked, there)] if told else []
    for one_gone in gone if asked.ids else ():
        if "quiet" not in said:
            say(f"scancel: error: Kill job error on job id {one_gone}: Invalid job id specified")
        status = max(status, int(signal not in _ENDING or "batch" in said or bool(filters)))
    if filters and not found and "verbose" in said:
        say(f"scancel: error: No active jobs match ALL job filters, including: {_told(said, states)}")
    # A job that waits has no script that could be signalled: with --batch, too, it is cancelled.
    ends = [job for job in found if signal in _ENDING and ("batch" not in said or job.state == "PENDING")]
    for job in found:
        if job not in ends:
            status = max(status, _signal(api, job, number, said))
    alone = any(one.offset for one in asked.ids)
    if ends:
        status = max(status, _cancel(api, ends, now=signal.endswith("KILL") or signal == "9", alone=alone))
    return status


_STEP = re.compile(r"(\d+)\.(\d+|batch)")
_FILTERS = ("account", "name", "nodelist", "partition", "qos", "reservation", "state", "user", "me", "wckey")


def _unmatched(asked: Chosen, there: Sequence[Job]) -> list[str]:
    """Return the ids that no live job has."""
    live = [job for job in there if job.live]
    return [
        f"{one.number}_{min(one.tasks)}" if one.tasks is not None else str(one.number)
        for one in asked.ids
        if not any(Chosen(ids=(one,)).has(job) for job in live)
    ]


def _told(said: Mapping[str, str | None], states: Iterable[str]) -> str:
    """Return the filters in Slurm's words and order."""
    words = {_SHOWN.get(name, name): said[name] or "" for name in _FILTERS if name in said}
    if "me" in said:
        words["user_name"] = str(os.getuid())
    if "state" in said:
        words["state"] = next(iter(states))
    return "".join(f"{name}={words[name]} " for name in sorted(words))


_SHOWN = {"name": "job_name", "user": "user_name", "me": "user_name"}
_NOT_HET, _NOT_FEDERATED = 58, 191


def _refused_siblings(found: Sequence[Job]) -> int:
    for job in shown_together(sorted(found, key=lambda job: (job.base, job.ask.task or 0))):
        say(f"scancel: error: Kill job error on job id {job.id}: Not a valid federated job")
    return _NOT_FEDERATED


def _is_of(job: Job, said: Mapping[str, str | None]) -> bool:
    """Return whether the job has the reservation and the wckey that are named."""
    wanted = {"reservation": job.ask.reservation, "wckey": job.ask.wckey}
    return all(said.get(name) is None or own in (said[name] or "").split(",") for name, own in wanted.items())


def _confirmed(job: Job) -> bool:
    print(f"Cancel job_id={job.id} name={job.ask.name} partition={job.ask.partition} [y/n]? ", end="", flush=True)
    return sys.stdin.readline().strip().lower().startswith("y")


def _step(api: Api, word: str, number: int, asked: Chosen, said: Mapping[str, str | None]) -> int:
    """Signal a step, or the script with `.batch`, of a job that has what the options ask."""
    base, _, name = word.partition(".")
    found = [job for job in jobs(api, [int(base)]) if job.number == int(base) and job.state in ("RUNNING", "SUSPENDED")]
    why = "Invalid job id specified"
    if found and {*_FILTERS} & said.keys() and not any(asked.has(job) and _is_of(job, said) for job in found):
        return 0  # a job that the options do not mean
    for job in found:
        running_now = [str(one) for one, step in job.steps.items() if step.end_s is None]
        if name != "batch" and running_now != [name]:
            # Daemons pass a signal to all steps of a job, so one of several cannot be chosen.
            why = "Job/step already completing or completed" if name not in running_now else "Invalid job step id"
        elif not running.may(api, job):
            why = "Access/permission denied"
        else:
            running.send(api, job, number, running.SCRIPT if name == "batch" else running.STEPS)
            return 0
    if found or "quiet" not in said:
        say(f"scancel: error: Kill job error on job step id {word}: {why}")
    return 1


def _refused_ids(asked: Chosen, found: Sequence[Job], there: Sequence[Job]) -> int:
    """Report ids of components of jobs that have none, and of ended jobs of other users. Return the exit code."""
    status = 0
    for one in asked.ids:
        same = [job for job in there if job.number == one.number]
        if one.offset == 0 and same and same[0].ask.het is None:
            say(f"scancel: error: Kill job error on job id {one.number}+{one.offset}: Job not heterogeneous job")
            status = _NOT_HET
    if os.getuid() == 0 or found or any(job.live for job in there):
        return status
    from phalanx.slurm.jobs.ended import ended

    for job in ended(time.time() - _KEPT_S, [one.number for one in asked.ids if one.tasks is None]):
        if job.ask.uid != os.getuid():
            say(f"scancel: error: Kill job error on job id {job.id}: Access/permission denied")
            status = _DENIED
    return status


_KEPT_S = 300.0  # Slurm's default of MinJobAge


def _signal(api: Api, job: Job, number: int, said: Mapping[str, str | None]) -> int:
    """To the steps; with --batch to the script, with --full to both."""
    what = running.SCRIPT if "batch" in said else running.ALL if "full" in said else running.STEPS
    if not running.may(api, job):
        say(f"scancel: error: Kill job error on job id {job.number}: Access/permission denied")
        return _DENIED
    if job.state not in ("RUNNING", "SUSPENDED"):
        say(f"scancel: error: Kill job error on job id {job.number}: Job is pending execution")
        return 1
    try:
        running.send(api, job, number, what)
    except (PhalanxError, OSError) as error:
        say(f"scancel: error: Kill job error on job id {job.number}: {error}")
        return 1
    return 0


def _states(text: str | None) -> frozenset[str]:
    """Return the state that is named; as in Slurm, no list of states. Raises Usage."""
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
    # As in Slurm, these options take one name, which may have commas.
    whole = {name: said[name] for name in ("account", "partition", "qos", "name") if name in said}
    one = {name: frozenset({(text or "").lower() if name == "account" else text or ""}) for name, text in whole.items()}
    asked = chosen({name: text for name, text in said.items() if name not in whole}, states)
    return Chosen(
        ids=tuple(ids), users=asked.users, accounts=one.get("account", asked.accounts),
        partitions=one.get("partition", asked.partitions), qos=one.get("qos", asked.qos),
        names=one.get("name", asked.names), states=asked.states, nodes=asked.nodes,
    )  # fmt: skip


def _missing(asked: Chosen, found: Sequence[Job]) -> list[int]:
    there = {job.number for job in found} | {job.first for job in found}
    gone = [one.number for one in asked.ids if one.number not in there]
    if not gone:
        return []
    from phalanx.slurm.jobs.ended import recorded

    known = recorded()
    over = {job.number for job in known} | {job.base for job in known}
    return [number for number in gone if number not in over]


def _may_go(api: Api, job: Job, *, alone: bool) -> str:
    """Return why the job may not be cancelled; empty: it may."""
    if job.ask.het_offset and job.state == "PENDING" and alone:
        return "Operation not permitted on individual component of heterogeneous job"
    return "" if running.may(api, job) else "Access/permission denied"


def _cancel(api: Api, found: Sequence[Job], *, now: bool, alone: bool) -> int:
    whys = {job.number: _may_go(api, job, alone=alone) for job in found}
    going = [job for job in found if not whys[job.number]]
    denied = [job for job in found if whys[job.number]]
    for job in shown_together(sorted(denied, key=lambda job: (job.base, job.ask.task or 0))):
        say(f"scancel: error: Kill job error on job id {job.id}: {whys[job.number]}")
    stay: list[Job] = []

    def refused(job: Job, error: Refused) -> None:
        say(f"scancel: error: Kill job error on job id {job.number}: {error.message}")
        stay.append(job)

    cancel_all(api, going, refused, now=now)
    return _DENIED if len(going) < len(found) or stay else 0
