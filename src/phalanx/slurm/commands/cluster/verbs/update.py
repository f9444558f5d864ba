"""Run scontrol update. Changes of jobs are made in this module; changes of nodes, partitions and reservations are
passed to `verbs.nodes`."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Sequence

import msgspec

from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.commands.cluster.verbs import update_asked, update_forms
from phalanx.slurm.commands.cluster.verbs.named import parts_of, refusal, say_of, with_ended, without_job
from phalanx.slurm.commands.cluster.verbs.nodes import (
    entity_of,
    minutes,
    update_node,
    update_partition,
    update_reservation,
)
from phalanx.slurm.control import running
from phalanx.slurm.jobs.ask import ASK, TEXT_MOST, Ask, read_ask
from phalanx.slurm.jobs.chosen import is_user
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.notation import times
from phalanx.slurm.options import Usage, say
from phalanx.slurm.submission import numbers
from phalanx.slurm.submission.asked.forms import read_nice
from phalanx.slurm.submission.creation import scheduling_words

_LEADING = re.compile(r"\s*\+?\d*")
# Parameters that can only be changed for a single job, not for several tasks of an array.
_ONE_LINE = frozenset({"nodelist", "numnodes", "reqnodelist", "reqnodes"})
_HELD = ("phalanx.dev/hold",)
_AFTER = ("phalanx.dev/after", "phalanx.dev/after-any", "phalanx.dev/singleton")
_TIMES = ("begin", "deadline", "array", "array-cap", "time-limit", "nice")
_UNSAID = dict.fromkeys((*_HELD, *_AFTER, *(f"phalanx.dev/{name}" for name in _TIMES)))


def update(words: Sequence[str]) -> int:
    if not words:
        raise Usage("too few arguments for update keyword")
    pairs = [word.partition("=") for word in words]
    said = {name.lower(): value for name, equals, value in pairs if equals}
    bare = [word for word in words if "=" not in word and word.lower() != "resetaccruetime"]
    said |= {word.lower(): "" for word in words if word.lower() == "resetaccruetime"}
    if len(words) >= 2 and words[0].lower() == "job":
        said, bare = {"jobid": words[1], **said}, bare[2:]
    if bare == ["nice"]:
        said, bare = {**said, "nice": ""}, []
    if bare and said:
        raise Usage(f"Invalid input: {bare[0]}\nRequest aborted")
    if "jobid" not in said and "job" not in said and len(said) > 1 and "jobname" in said:
        name = said.pop("jobname")
        said = {"jobid": f"jobname={name}", **said}
    if key := next((name for name in ("jobid", "job") if name in said), None):
        return _update_job(said.pop(key), said)
    first, value = next(((name, text) for name, text in said.items() if entity_of(name)), ("", ""))
    match entity_of(first):
        case "nodename":
            return update_node(value, {name: text for name, text in said.items() if name != first})
        case "reservationname":
            return update_reservation({**said, "reservationname": value})
        case "partitionname":
            return update_partition(value, {name: text for name, text in said.items() if name != first})
    raise Usage(
        "No valid entity in update command\nInput line must include "
        '"NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
    )


def _update_job(text: str, said: dict[str, str]) -> int:
    for name in said:
        if name not in _NAMES:
            raise Usage(f"Update of this parameter is not supported: {name}={said[name]}\nRequest aborted")
    if not is_user(said.get("userid", "root")):
        raise Usage(f"Invalid UserID: {said['userid']}\nRequest aborted")
    api, status = ApiClient.open(), 0
    if not {*said} - {"userid"}:
        raise Usage("No changes specified")
    if not _require_readable(said):
        return 0
    if _ONE_LINE & said.keys():
        if text and not re.fullmatch(r"\d+(_\d+)?", text):
            raise Usage(f"scontrol: error: Invalid job ID {text}")
        if not int(text or "0"):
            raise Usage(f"{_NO_STATE} {text}: Invalid job id specified")
    found, missing = _named(api, text, said)
    within: update_asked.Around | None = None
    lines = shown_together(found)
    if _ONE_LINE & said.keys() and len(lines) > 1:
        raise Usage("scontrol: error: Job resizing not supported for job arrays")
    for job in lines:
        within = within or update_asked.around(api, job, said)
        why = _refusal(api, job, said, within)
        try:
            for one in (
                () if why else [job, *(one for one in found if one.base == job.base and one.ask.task in job.others)]
            ):
                _update_one(api, one, said, within)
        except (numbers.DependencyError, update_asked.Refusal) as error:
            why = str(error)
        except RequestRefused as error:
            why = "Job has already finished" if error.code == _GONE else error.message
        if why:
            say_of(job, why)
            status = 1
    for part in missing:
        say(without_job(part))
        status = 1
    return status


_NO_STATE = "scontrol: error: Could not load state information for job"


def _refusal(api: ApiClient, job: JobInfo, said: dict[str, str], within: update_asked.Around) -> str:
    """Return the reason for which Slurm refuses every change of this job; "" if there is none. `said`: the changes."""
    if not job.live:
        return "Job has already finished"
    if "burstbuffer" in said:
        return update_forms.ALWAYS_REFUSED["burstbuffer"]
    if "admincomment" in said and not within.operator:
        return update_asked.DENIED
    if why := refusal(api, job):
        return why
    late = job.state != "PENDING" and {*said} & (update_forms.PENDING_ONLY | {"deadline"})
    return update_asked.DENIED if {*said} & update_forms.OPERATORS and not within.operator and not late else ""


def _named(api: ApiClient, text: str, said: dict[str, str]) -> tuple[list[JobInfo], list[str]]:
    """Return the jobs with the ids in `text`, and the ids for which no job exists. Raises Usage."""
    found: list[JobInfo] = []
    missing: list[str] = []
    for part in [text] if "=" in text else parts_of(text):
        try:
            found += with_ended(api, part)
        except Usage:
            if _ONE_LINE & said.keys() and part.isdecimal():
                raise Usage(f"{_NO_STATE} {part}: Invalid job id specified") from None
            missing.append(part)
    return found, missing


def _require_readable(said: dict[str, str]) -> bool:
    """Check the values by the rules that do not depend on the jobs. Return False after an error that Slurm only
    reports, with exit code 0. Raises Usage for other errors."""
    if "endtime" in said:
        try:
            times.read_moment(said["endtime"], time.time())
        except times.TimeError as error:
            say(f"Invalid time specification (pos={error.at}): {said['endtime']}")
            return False
    if (limit := said.get("timelimit")) is not None:
        minutes(limit.lstrip("+-") if limit != "-1" else limit)
    for name in ("starttime", "eligibletime", "deadline"):
        if name in said:
            _at(said[name])
    if said.get("requeue", "") and not said["requeue"].isdecimal():
        raise Usage(f"scontrol: error: Invalid Requeue value: {said['requeue']}")
    if said.get("priority", "") and not said["priority"].isdecimal():
        raise Usage(f"scontrol: error: Invalid Priority value: {said['priority']}")
    return update_forms.require_readable(said)


def _update_one(api: ApiClient, job: JobInfo, said: dict[str, str], within: update_asked.Around) -> None:
    place = api.within(job.namespace)
    there = place.get(path_of(job.number, job.ask))
    before = there["metadata"].get("annotations") or {}
    ask = read_ask(before) or update_asked.copied(job.ask)
    needs = _change(api, job, ask, said, within)
    changed: dict[str, object] = {**_UNSAID, **scheduling_words(ask, needs or numbers.Needs())}
    kept = _HELD if needs is not None else (*_HELD, *_AFTER)
    changed |= {name: before.get(name) for name in kept}
    if ask.hold != job.ask.hold:
        changed["phalanx.dev/hold"] = ask.hold or None
    changed[ASK] = msgspec.json.encode(ask).decode()
    waits = job.state == "PENDING" and {*said} & update_forms.NAMES
    more = update_asked.patch_of(job, ask, there, within.site) if waits else {}
    place.patch(path_of(job.number, job.ask), update_asked.with_change(changed, more))
    if waits and job.ask.task is None:  # tasks of an array share one Secret
        update_asked.refresh_environment(place, job, ask, within.site)


# The parameters of a job that Slurm can change (scontrol(1)). A parameter that Phalanx cannot change is refused with a
# message that names it.
_NAMES = frozenset({
    *update_forms.NAMES, "account", "accounting", "arraytaskthrottle", "burstbuffer", "clusterfeatures", "clusters",
    "comment", "contiguous", "corespec", "cpuspertask", "cpuspertres", "deadline", "delayboot", "dependency",
    "eligibletime", "features", "gres", "jobname",
    "mailuser", "mempertres", "name",
    "nice", "nodelist", "numcpus", "numnodes", "numtasks", "oversubscribe", "partition", "prefer", "priority", "qos",
    "reboot", "reqcores", "reqnodelist", "reqnodes", "reqprocs", "reqsockets", "reqthreads", "requeue",
    "reservationname", "reservation", "resetaccruetime", "shared", "sicp", "sitefactor", "starttime", "stdout",
    "switches", "threadspec", "timelimit", "timemin", "tres", "userid", "wait-for-switch", "wckey", "workdir",
})  # fmt: skip


def _change(
    api: ApiClient, job: JobInfo, ask: Ask, said: dict[str, str], within: update_asked.Around
) -> numbers.Needs | None:
    """Make the changes `said` in the request `ask`. Return the new dependencies of the job if they are changed; None
    otherwise. Raises Usage, DependencyError, Refusal."""
    needs = None
    for name, value in said.items():
        if job.state != "PENDING" and name in update_forms.PENDING_ONLY:
            raise update_asked.Refusal("Job is no longer pending execution")
        match name:
            case "endtime":
                ask.limit_min = _until(job, ask, value, within)
            case "timelimit":
                ask.limit_min = _limit(job, ask, value, within)
            case "requeue":
                ask.requeue = bool(int(value or "0"))
            case "wckey":
                ask.wckey = value
            case "userid":
                continue  # as in Slurm, UserID selects jobs, and has no effect together with a job id
            case "name" | "jobname":
                ask.name = value
            case "comment":
                ask.comment = value[:TEXT_MOST]
            case "priority":
                _prioritize(job, ask, value)
            case "nice":
                ask.nice = _nice(value)
            case "starttime" | "eligibletime":
                ask.begin_s = _at(value)
            case "deadline":
                ask.deadline_s = _at(value)
            case "arraytaskthrottle":
                ask.throttle = int((_LEADING.match(value) or [""])[0] or 0)
            case "qos":
                if value not in within.site.qos:
                    raise update_asked.Refusal("Invalid qos specification")
                ask.qos = value
            case "dependency":
                needs = numbers.read(api, value, job.ask.task, job.number)
                ask.dependency = needs.shown
            case _:
                update_asked.change(job, ask, _SAME.get(name, name), value, within)
    return needs


_GONE = 404
_SAME = {"reservation": "reservationname", "reqnodes": "numnodes", "reqprocs": "numcpus"}  # other name -> parameter


def _until(job: JobInfo, ask: Ask, value: str, within: update_asked.Around) -> int | None:
    """Return the time limit, in minutes, with which the running job ends at the time `value`. Raises Refusal."""
    if job.start_s is None:
        raise update_asked.Refusal("Job is not running")
    found = max(1, round((times.read_moment(value, time.time()) - job.start_s) / 60))
    if ask.limit_min is not None and found > ask.limit_min and not within.operator:
        raise update_asked.Refusal(update_asked.DENIED)
    return found


def _limit(job: JobInfo, ask: Ask, text: str, within: update_asked.Around) -> int | None:
    """Return the new time limit in minutes; None for no limit. Only operators and coordinators may raise the limit.
    Raises Usage, Refusal."""
    sign = text[:1] if text[:1] in ("+", "-") and text != "-1" else ""
    found = minutes(text.removeprefix(sign))
    if sign and found is not None and ask.limit_min is not None:
        found = ask.limit_min + found if sign == "+" else ask.limit_min - found
        if found < 0:
            raise Usage("Invalid job time limit")
    longer = ask.limit_min is not None and (found is None or found > ask.limit_min)
    me = pwd.getpwuid(os.getuid()).pw_name
    if longer and os.getuid() != 0 and not running.may_as(within.site, me, job):
        raise update_asked.Refusal(update_asked.DENIED)
    return found


def _prioritize(job: JobInfo, ask: Ask, value: str) -> None:
    """Set the priority of the job in its request. 0 holds the job. For another value, the nice value is changed so that
    the job gets this priority. Raises Refusal."""
    wanted = int(value or "0")
    if wanted and job.state != "PENDING":
        raise update_asked.Refusal("Changes to job priority are not persistent, change nice instead")
    if wanted and job.held:
        raise update_asked.Refusal("Job is in held state, pending scheduler release")
    if os.getuid() != 0 and wanted > job.priority:
        raise update_asked.Refusal(update_asked.DENIED)
    if wanted == 0:
        ask.hold = "JobHeldUser" if os.getuid() == ask.uid else "JobHeldAdmin"
    else:
        ask.nice += job.priority - wanted


def _nice(text: str) -> int:
    found = read_nice(text or None)
    if found < 0 and os.getuid() != 0:
        raise update_asked.Refusal(update_asked.DENIED)
    return found


def _at(text: str) -> float:
    try:
        return times.read_moment(text, time.time())
    except times.TimeError as error:
        raise Usage(f"Invalid time specification (pos={error.at}): {text}\nNo changes specified") from None
