"""scontrol update: of jobs, and by what is named of nodes, partitions and reservations."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.cluster.verbs.named import refusal, say_of, with_ended
from phalanx.slurm.commands.cluster.verbs.nodes import update_node, update_partition
from phalanx.slurm.commands.cluster.verbs.reservations import update_reservation
from phalanx.slurm.commands.cluster.verbs.values import count, minutes
from phalanx.slurm.control import running
from phalanx.slurm.jobs.ask import ASK, TEXT_MOST, Ask, read_ask
from phalanx.slurm.jobs.fields import shown_together
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.view import Job
from phalanx.slurm.notation import times
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import dependency
from phalanx.slurm.submission.asked.forms import read_nice
from phalanx.slurm.submission.creation import scheduling_words

_HELD = ("phalanx.dev/hold",)
_AFTER = ("phalanx.dev/after", "phalanx.dev/after-any", "phalanx.dev/singleton")
_TIMES = ("begin", "deadline", "array", "array-cap", "time-limit", "nice")
_UNSAID = dict.fromkeys((*_HELD, *_AFTER, *(f"phalanx.dev/{name}" for name in _TIMES)))


def update(words: Sequence[str]) -> int:
    if not words:
        raise Usage("too few arguments for update keyword")
    pairs = [word.partition("=") for word in words]
    said = {name.lower(): value for name, equals, value in pairs if equals}
    bare = [word for word in words if "=" not in word]
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
    if "nodename" in said:
        return update_node(said.pop("nodename"), said)
    if "reservationname" in said or "reservation" in said:
        return update_reservation(said)
    if "partitionname" in said:
        return update_partition(said.pop("partitionname"), said)
    raise Usage(
        "No valid entity in update command\nInput line must include "
        '"NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
    )


class Refusal(PhalanxError):
    """The message of Slurm for a change that is not made, before `for job`."""


def _update_job(text: str, said: dict[str, str]) -> int:
    for name in said:
        if name not in _NAMES:
            raise Usage(f"Update of this parameter is not supported: {name}={said[name]}\nRequest aborted")
    api, status = Api.open(), 0
    if not {*said} - {"userid"}:
        raise Usage("No changes specified")
    _require_readable(said)
    found = with_ended(api, text)
    for job in shown_together(found):
        why = refusal(api, job) if job.live else "Job has already finished"
        try:
            for one in (
                () if why else [job, *(one for one in found if one.base == job.base and one.ask.task in job.others)]
            ):
                _update_one(api, one, said)
        except (dependency.DependencyError, Refusal) as error:
            why = str(error)
        if why:
            say_of(job, why)
            status = 1
    return status


def _require_readable(said: dict[str, str]) -> None:
    """Raise Usage for a value that cannot be read, whatever the job is."""
    if (limit := said.get("timelimit")) is not None:
        minutes(limit.lstrip("+-") if limit != "-1" else limit)
    for name in ("starttime", "eligibletime", "deadline"):
        if name in said:
            _at(said[name])
    if not said.get("priority", "0").isdigit():
        raise Usage(f"scontrol: error: Invalid Priority value: {said['priority']}")


def _update_one(api: Api, job: Job, said: dict[str, str]) -> None:
    place = api.within(job.namespace)
    before = place.get(path_of(job.number, job.ask))["metadata"].get("annotations") or {}
    ask = read_ask(before) or msgspec.structs.replace(job.ask)
    needs = _change(api, job, ask, said)
    changed: dict[str, Any] = {**_UNSAID, **scheduling_words(ask, needs or dependency.Needs())}
    kept = _HELD if needs is not None else (*_HELD, *_AFTER)
    changed |= {name: before.get(name) for name in kept}
    if ask.hold and not job.ask.hold:
        changed["phalanx.dev/hold"] = ask.hold
    changed[ASK] = msgspec.json.encode(ask).decode()
    place.patch(path_of(job.number, job.ask), {"metadata": {"annotations": changed}})


# What Slurm can change of a job (scontrol(1)); what Phalanx cannot change of a job is refused by name.
_NAMES = frozenset({
    "account", "accounting", "admincomment", "arraytaskthrottle", "burstbuffer", "clusterfeatures", "clusters",
    "comment", "contiguous", "corespec", "cpuspertask", "cpuspertres", "deadline", "delayboot", "dependency",
    "eligibletime", "endtime", "excnodelist", "extra", "features", "gres", "jobname", "licenses", "mailtype",
    "mailuser", "mempertres", "mincpusnode", "minmemorycpu", "minmemorynode", "mintmpdisknode", "name", "network",
    "nice", "nodelist", "numcpus", "numnodes", "numtasks", "oversubscribe", "partition", "prefer", "priority", "qos",
    "reboot", "reqcores", "reqnodelist", "reqnodes", "reqprocs", "reqsockets", "reqthreads", "requeue",
    "reservationname", "reservation", "resetaccruetime", "shared", "sicp", "sitefactor", "starttime", "stdout",
    "switches", "threadspec", "timelimit", "timemin", "tres", "userid", "wait-for-switch", "wckey", "workdir",
})  # fmt: skip


def _change(api: Api, job: Job, ask: Ask, said: dict[str, str]) -> dependency.Needs | None:
    """Apply the changes to `ask`, and return the new dependencies if they changed. Raises Usage, DependencyError."""
    needs = None
    for name, value in said.items():
        match name:
            case "timelimit":
                ask.limit_min = _limit(api, job, ask, value)
            case "requeue":
                if value not in ("0", "1"):
                    raise Usage(f"scontrol: error: Invalid Requeue value: {value}")
                ask.requeue = value == "1"
            case "wckey":
                ask.wckey = value
            case "userid":
                continue  # selects by user; the id has chosen already
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
                ask.throttle = count("ArrayTaskThrottle", value)
            case "qos":
                if value not in site.load(api).qos:
                    raise Refusal("Invalid qos specification")
                ask.qos = value
            case "dependency":
                needs = dependency.read(api, value, job.ask.task, job.number)
                ask.dependency = needs.shown
            case _:
                raise Usage(f"scontrol: error: Update of {name} is not supported by Phalanx (docs/guide/slurm.md)")
    return needs


def _limit(api: Api, job: Job, ask: Ask, text: str) -> int | None:
    """Return the new time limit. Only operators may give a job a longer one than it has. Raises Usage, Refusal."""
    sign = text[:1] if text[:1] in ("+", "-") and text != "-1" else ""
    found = minutes(text.removeprefix(sign))
    if sign and found is not None and ask.limit_min is not None:
        found = ask.limit_min + found if sign == "+" else ask.limit_min - found
        if found < 0:
            raise Usage("Invalid job time limit")
    longer = ask.limit_min is not None and (found is None or found > ask.limit_min)
    if longer and os.getuid() != 0 and not running.may_as(site.load(api), pwd.getpwuid(os.getuid()).pw_name, job):
        raise Refusal("Access/permission denied")
    return found


def _prioritize(job: Job, ask: Ask, value: str) -> None:
    """0 holds it; another is reached by its nice value."""
    if not value.isdigit():
        raise Usage(f"scontrol: error: Invalid Priority value: {value}")
    wanted = int(value)
    if wanted and job.held:
        raise Refusal("Job is in held state, pending scheduler release")
    if os.getuid() != 0 and wanted > job.priority:
        raise Refusal("Access/permission denied")
    if wanted == 0:
        ask.hold = "JobHeldUser" if os.getuid() == ask.uid else "JobHeldAdmin"
    else:
        ask.nice += job.priority - wanted


def _nice(text: str) -> int:
    found = read_nice(text or None)
    if found < 0 and os.getuid() != 0:
        raise Refusal("Access/permission denied")
    return found


def _at(text: str) -> float:
    try:
        return times.read_moment(text, time.time())
    except times.TimeError:
        raise Usage(f"Invalid time specification (pos=0): {text}\nNo changes specified") from None
