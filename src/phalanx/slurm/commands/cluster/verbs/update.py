"""scontrol update: of jobs, and by what is named of nodes, partitions and reservations."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.cluster.verbs.named import DENIED, named
from phalanx.slurm.commands.cluster.verbs.nodes import update_node, update_partition
from phalanx.slurm.commands.cluster.verbs.reservations import update_reservation
from phalanx.slurm.commands.cluster.verbs.values import count, minutes
from phalanx.slurm.control import running
from phalanx.slurm.jobs.ask import ASK, TEXT_MOST, Ask, read_ask
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.view import Job
from phalanx.slurm.notation import times
from phalanx.slurm.options import Usage, say
from phalanx.slurm.submission import dependency
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
    if len(words) >= 2 and words[0].lower() == "job":
        said = {"jobid": words[1], **said}
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
    api, status = Api.open(), 0
    for job in named(api, text):
        if not running.may(api, job):
            say(f"{DENIED}{job.id}")
            status = 1
            continue
        place = api.within(job.namespace)
        before = place.get(path_of(job.number, job.ask))["metadata"].get("annotations") or {}
        ask = read_ask(before) or msgspec.structs.replace(job.ask)
        try:
            needs = _change(api, job, ask, said)
        except (dependency.DependencyError, Refusal) as error:
            say(f"{error} for job {job.id}")
            status = 1
            continue
        changed: dict[str, Any] = {**_UNSAID, **scheduling_words(ask, needs or dependency.Needs())}
        kept = _HELD if needs is not None else (*_HELD, *_AFTER)
        changed |= {name: before.get(name) for name in kept}
        if ask.hold and not job.ask.hold:
            changed["phalanx.dev/hold"] = ask.hold
        changed[ASK] = msgspec.json.encode(ask).decode()
        place.patch(path_of(job.number, job.ask), {"metadata": {"annotations": changed}})
    return status


def _change(api: Api, job: Job, ask: Ask, said: dict[str, str]) -> dependency.Needs | None:
    """Apply the changes to `ask`, and return the new dependencies if they changed. Raises Usage, DependencyError."""
    needs = None
    for name, value in said.items():
        match name:
            case "timelimit":
                ask.limit_min = minutes(value)
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


def _prioritize(job: Job, ask: Ask, value: str) -> None:
    """0 holds it; another is reached by its nice value."""
    if not value.isdigit():
        raise Usage(f"scontrol: error: Invalid Priority value: {value}")
    wanted = int(value)
    if os.getuid() != 0 and wanted > job.priority:
        raise Refusal("Access/permission denied")
    if wanted == 0:
        ask.hold = "JobHeldUser" if os.getuid() == ask.uid else "JobHeldAdmin"
    elif job.held:
        raise Refusal("Job is in held state, pending scheduler release")
    else:
        ask.nice += job.priority - wanted


def _nice(text: str) -> int:
    found = count("Nice", text.removeprefix("-")) if text else 100
    if text.startswith("-") and os.getuid() != 0:
        raise Refusal("Access/permission denied")
    return -found if text.startswith("-") else found


def _at(text: str) -> float:
    try:
        return times.read_moment(text, time.time())
    except times.TimeError:
        raise Usage(f"Invalid time specification (pos=0): {text}") from None
