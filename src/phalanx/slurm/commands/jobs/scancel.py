"""scancel: end jobs, or take them out of the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api, Refused
from phalanx.slurm.control import running
from phalanx.slurm.control.cancelling import cancel_all
from phalanx.slurm.jobs.chosen import Chosen, NoJob, chosen, is_user, read_ids, read_states
from phalanx.slurm.jobs.view import Job, jobs
from phalanx.slurm.notation.signals import number_of
from phalanx.slurm.options import Reader, Usage, declare, say

OPTIONS = declare(
    "account,A= batch,b full,f help hurry,H jobname,n= name= me nodelist,w= partition,p= qos,q= quiet,Q signal,s= "
    "state,t= "
    "user,u= usage verbose,v version,V"
) + declare("clusters,M= ctld cron interactive,i reservation,R= sibling= wckey=", refused=True)
_READER = Reader("scancel", OPTIONS)
_DENIED = 210  # what Slurm ends with where it may not: its error's number, as far as an exit code holds it
_ENDING = ("TERM", "SIGTERM", "15", "KILL", "SIGKILL", "9")


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    said["name"] = said.get("name", said.get("jobname"))
    if "help" in said or "usage" in said:
        say("Usage: scancel [OPTIONS] [job_id[_array_id]]")
        return 0
    signal = (said.get("signal") or "TERM").upper()
    number = number_of(signal)
    if number is None:
        raise Usage(f"Unknown job signal: {said['signal']}")
    for user in (said.get("user") or "").split(","):
        if user and not user.isdigit() and not is_user(user):
            raise Usage(f"scancel: error: Invalid user name: {user}")
    asked = _asked(said, arguments)
    if asked == Chosen():
        raise Usage("scancel: error: No job identification provided")
    api = Api.open()
    found = [job for job in jobs(api, asked.numbers, live=True) if job.live and asked.has(job)]
    status = 0
    told = signal not in _ENDING or "verbose" in said  # Slurm prints nothing when a job to end does not exist
    for gone in _missing(asked, jobs(api, asked.numbers, places=False)) if told and asked.ids else ():
        if "quiet" not in said:
            say(f"scancel: error: Kill job error on job id {gone}: Invalid job id specified")
        status = max(status, int(signal not in _ENDING))
    for job in found if signal not in _ENDING or "batch" in said else ():
        status = max(status, _signal(api, job, number, said))
    alone = any(one.offset for one in asked.ids)
    if signal in _ENDING and "batch" not in said:
        status = max(status, _cancel(api, found, now=signal.endswith("KILL") or signal == "9", alone=alone))
    return status


def _signal(api: Api, job: Job, number: int, said: Mapping[str, str | None]) -> int:
    """To the steps; with --batch to the script, with --full to both."""
    what = running.SCRIPT if "batch" in said else running.ALL if "full" in said else running.STEPS
    if not running.may(api, job):
        say(f"scancel: error: Kill job error on job id {job.number}: Access/permission denied")
        return 1
    if job.state not in ("RUNNING", "SUSPENDED"):
        say(f"scancel: error: Kill job error on job id {job.number}: Job is pending execution")
        return 1
    try:
        running.send(api, job, number, what)
    except (PhalanxError, OSError) as error:
        say(f"scancel: error: Kill job error on job id {job.number}: {error}")
        return 1
    return 0


def _asked(said: Mapping[str, str | None], arguments: Sequence[str]) -> Chosen:
    ids = []
    for argument in arguments:
        try:
            ids += read_ids(argument)
        except NoJob:
            raise Usage(f"scancel: error: Invalid job id {argument}") from None
    states = frozenset[str]()
    if text := said.get("state"):
        try:
            states = read_states(text) or frozenset()
        except KeyError:
            valid = "Valid job states are PENDING, RUNNING, and SUSPENDED"
            raise Usage(f"Invalid job state specified: {text}\n{valid}") from None
    asked = chosen(said, states)
    return Chosen(
        ids=tuple(ids), users=asked.users, accounts=asked.accounts, partitions=asked.partitions, qos=asked.qos,
        names=asked.names, states=asked.states, nodes=asked.nodes,
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


def _may_go(api: Api, job: Job, *, alone: bool) -> bool:
    if job.ask.het_offset and job.state == "PENDING" and alone:
        why = "Operation not permitted on individual component of heterogeneous job"
        say(f"scancel: error: Kill job error on job id {job.id}: {why}")
        return False
    if not running.may(api, job):
        say(f"scancel: error: Kill job error on job id {job.number}: Access/permission denied")
        return False
    return True


def _cancel(api: Api, found: Sequence[Job], *, now: bool, alone: bool) -> int:
    going = [job for job in found if _may_go(api, job, alone=alone)]
    stay: list[Job] = []

    def refused(job: Job, error: Refused) -> None:
        say(f"scancel: error: Kill job error on job id {job.number}: {error.message}")
        stay.append(job)

    cancel_all(api, going, refused, now=now)
    return _DENIED if len(going) < len(found) or stay else 0
