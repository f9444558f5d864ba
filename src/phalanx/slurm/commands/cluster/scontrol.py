"""scontrol: look at jobs, nodes and partitions, and change them."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import SECRETS, Api, Object, Refused
from phalanx.slurm.commands.cluster.configured import show_config, show_licenses
from phalanx.slurm.control import reservations, running
from phalanx.slurm.jobs import pages
from phalanx.slurm.jobs.ask import ASK, BATCH, TEXT_MOST, Ask
from phalanx.slurm.jobs.chosen import Chosen, NoJob, read_ids
from phalanx.slurm.jobs.names import path_of, secret_of
from phalanx.slurm.jobs.nodes import PATH as NODES
from phalanx.slurm.jobs.view import Job, jobs
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import Reader, Usage, declare, say
from phalanx.slurm.submission import dependency
from phalanx.slurm.submission.creation import scheduling_words

OPTIONS = declare("all,a details,d help,h oneliner,o quiet,Q version,V") + declare(
    "clusters,M= future,F hide local sibling uid,u= verbose,v json yaml", refused=True
)
_READER = Reader("scontrol", OPTIONS)
_HELD = ("phalanx.dev/hold",)
_AFTER = ("phalanx.dev/after", "phalanx.dev/after-any", "phalanx.dev/singleton")
_TIMES = ("begin", "deadline", "array", "array-cap", "time-limit", "nice")
_UNSAID = dict.fromkeys((*_HELD, *_AFTER, *(f"phalanx.dev/{name}" for name in _TIMES)))
VERSION = "22.05.8"
# What Slurm has and Phalanx has not: refused by its name; all else is no word of scontrol's.
_REFUSED = (
    "abort",
    "bbstat",
    "cancel_reboot",
    "checkpoint",
    "cluster",
    "completing",
    "dwstat",
    "errnumstr",
    "fsdampeningfactor",
    "getaddrs",
    "listpids",
    "notify",
    "pidinfo",
    "schedloglevel",
    "setdebug",
    "setdebugflags",
    "shutdown",
    "takeover",
    "token",
    "wait_job",
)
_NOT_SHOWN = ("assoc_mgr", "assoc", "burstbuffer", "bb", "dwstat", "federation", "fed", "frontend", "slurmd")
_PARTITION_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")
_DENIED = "Access/permission denied for job "


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words)
    if not arguments:
        raise Usage("scontrol: error: a command is expected: Phalanx has no interactive scontrol (docs/guide/slurm.md)")
    verb, *rest = arguments
    oneline, details = "oneliner" in dict(typed), "details" in dict(typed)
    known: dict[str, Callable[[], int]] = {
        "show": lambda: _show(rest, oneline, details),
        "hold": lambda: _hold(rest, "JobHeldUser"),
        "uhold": lambda: _hold(rest, "JobHeldUser"),
        "release": lambda: _hold(rest, ""),
        "update": lambda: _update(rest),
        "write": lambda: _write(rest),
        "ping": _ping,
        "requeue": lambda: _to_running(rest, _requeue),
        "requeuehold": lambda: _to_running(rest, _requeue_held),
        "suspend": lambda: _to_running(rest, _suspend),
        "resume": lambda: _to_running(rest, _resume),
        "top": lambda: _top(rest),
        "create": lambda: _create(rest),
        "delete": lambda: _delete(rest),
        "reconfigure": lambda: 0,
        "reboot": lambda: _reboot(rest),
        "version": lambda: print(f"slurm-wlm {VERSION}") or 0,
    }
    if verb not in known and verb not in _REFUSED:
        raise Usage(f"invalid keyword: {verb}")
    if verb not in known:
        raise Usage(f"scontrol: error: {verb} is not supported by Phalanx (docs/guide/slurm.md)")
    return known[verb]()


# --- show -----------------------------------------------------------------------------------------------------------


def _show(words: Sequence[str], oneline: bool, details: bool) -> int:
    if not words:
        raise Usage("too few arguments for keyword:show")
    what, *names = [*words, ""]
    name = names[0] if names else ""
    match what.lower():
        case "hostnames" | "hostname":
            return _hostnames(name)
        case "hostlist":
            print(compress(name.split(",")))
        case "hostlistsorted":
            print(compress(expand(name), ordered=True))
        case "job" | "jobs" | "jobid":
            return _show_jobs(name, oneline, details)
        case "node" | "nodes":
            return _show_nodes(name, oneline)
        case "partition" | "partitions":
            return _show_partitions(name, oneline)
        case "reservation" | "reservations" | "res":
            return _show_reservations(name, oneline)
        case "step" | "steps":
            return _show_steps(name, oneline)
        case "config":
            return show_config()
        case "licenses" | "license" | "lic":
            return show_licenses()
        case "topology" | "topo":
            raise Usage("scontrol: error: No topology information available")
        case "daemons":
            print("")
        case "aliases":
            print("\n".join(expand(name)))
        case _ if what.lower() not in _NOT_SHOWN:
            raise Usage(f"invalid entity:{what} for keyword:show ")
        case _:
            raise Usage(f"scontrol: error: show {what} is not supported by Phalanx (docs/guide/slurm.md)")
    return 0


def _hostnames(text: str) -> int:
    text = text or os.environ.get("SLURM_NODELIST", "")
    if not text:
        say("scontrol: error: host list is empty")
        return 0
    print("\n".join(expand(text)))
    return 0


def _show_jobs(text: str, oneline: bool, details: bool) -> int:
    api = Api.open()
    try:
        ids = tuple(read_ids(text))
    except NoJob:
        raise Usage("scontrol_print_job error: Invalid job id specified") from None
    found = _all(api, Chosen(ids=ids))
    if ids and not found:
        raise Usage("slurm_load_jobs error: Invalid job id specified")
    if not found:
        print("No jobs in the system")
    for job in found:
        _page(pages.job(job, details=details), oneline)
    return 0


def _all(api: Api, asked: Chosen) -> list[Job]:
    """Return those that exist, and those that ended lately."""
    from phalanx.slurm.jobs.ended import ended

    found = [job for job in jobs(api, asked.numbers) if asked.has(job)]
    there = {job.number for job in found}
    since_s = time.time() - site.load(api).keep_s
    late = [job for job in ended(since_s) if job.number not in there and asked.has(job)]
    return sorted([*found, *late], key=lambda job: job.number)


def _show_nodes(text: str, oneline: bool) -> int:
    from phalanx.slurm.commands.cluster.sinfo import see

    api = Api.open()
    here, found, wanted = site.load(api), see(api), expand(text)
    for name in wanted or [one.node.name for one in found]:
        seen = next((one for one in found if one.node.name == name), None)
        if seen is None:
            print(f"Node {name} not found")
            return 1
        names = [one.name for one in here.all if not one.nodes or name in one.nodes]
        shaped = msgspec.structs.replace(seen.node, shape=here.sockets.get(name, ""))
        _page(pages.node(shaped, seen.state, seen.used, names), oneline)
    return 0


def _show_partitions(text: str, oneline: bool) -> int:
    from phalanx.slurm.jobs.nodes import nodes

    api = Api.open()
    here, every = site.load(api), nodes(api)
    found = [one for one in here.all if not text or one.name == text]
    if not found:
        print(f"Partition {text} not found")
        return 1
    for partition in found:
        within = [node for node in every if not partition.nodes or node.name in partition.nodes]
        _page(pages.partition(partition, within), oneline)
    return 0


def _show_reservations(text: str, oneline: bool) -> int:
    found = [one for one in reservations.reservations(Api.open()) if not text or one.name == text]
    if not found:
        print(f"Reservation {text} not found" if text else "No reservations in the system")
        return int(bool(text))
    for one in found:
        _page(reservations.page(one), oneline)
    return 0


def _show_steps(text: str, oneline: bool) -> int:
    base, _, step = text.partition(".")
    try:
        ids = tuple(read_ids(base))
    except NoJob:
        raise Usage("Invalid job/step id specified") from None
    found = [job for job in jobs(Api.open(), Chosen(ids=ids).numbers) if Chosen(ids=ids).has(job) and job.start_s]
    shown = [(job, name) for job in found for name in pages.steps(job) if not step or name == step]
    if not shown:
        raise Usage(f"Job step {text} not found" if step else "No job steps in the system")
    for job, name in shown:
        _page(pages.step(job, name), oneline)
    return 0


def _page(lines: Sequence[Sequence[str]], oneline: bool) -> None:
    if oneline:
        print(" ".join(word for line in lines for word in line if word))
    else:
        print("\n".join(f"{'   ' if at and any(line) else ''}{' '.join(line)}" for at, line in enumerate(lines)) + "\n")


# --- jobs -----------------------------------------------------------------------------------------------------------


def _named(api: Api, text: str) -> list[Job]:
    """The live jobs that an id means. Raises Usage."""
    try:
        ids = tuple(read_ids(text.removeprefix("jobid=").removeprefix("JobId=")))
    except NoJob:
        raise Usage(f"Invalid job id specified for job {text}") from None
    asked = Chosen(ids=ids)
    found = [job for job in jobs(api, asked.numbers) if asked.has(job)]
    if not found:
        raise Usage(f"Invalid job id specified for job {text}")
    # Tasks of an array in their order: who is told first of a higher throttle starts first.
    return sorted(found, key=lambda job: (job.base, -1 if job.ask.task is None else job.ask.task))


def _hold(words: Sequence[str], hold: str) -> int:
    if not words:
        raise Usage("too few arguments for keyword:hold")
    api, status = Api.open(), 0
    for job in [job for word in words for job in _named(api, word)]:
        if job.state != "PENDING":
            say(f"Job is no longer pending execution for job {job.id}")
            status = 1
        elif not running.may(api, job):
            say(f"{_DENIED}{job.id}")
            status = 1
        else:
            said = (hold if os.getuid() == job.ask.uid else "JobHeldAdmin") if hold else None
            api.patch(path_of(job.number, job.ask), {"metadata": {"annotations": {"phalanx.dev/hold": said}}})
    return status


def _to_running(words: Sequence[str], do: Callable[[Api, Job], str]) -> int:
    """`do` says why it cannot be done, if so."""
    if not words:
        raise Usage("scontrol: error: too few arguments for keyword")
    api, status = Api.open(), 0
    for word in [part for some in words for part in re.split(r",(?![^\[]*\])", some)]:
        try:
            found = _named(api, word)
        except Usage:
            missing = "Unexpected message received" if do in (_suspend, _resume) else "Invalid job id specified"
            say(f"{missing} for job {word}")
            status = 1
            continue
        for job in found:
            try:
                wrong = do(api, job)
            except (PhalanxError, OSError) as error:
                wrong = str(error)
            if wrong:
                say(f"{wrong} for job {job.id}")
                status = 1
    return status


def _requeue(api: Api, job: Job, hold: str = "") -> str:
    if not running.may(api, job):
        return "Access/permission denied"
    if job.state == "PENDING":
        return "Job is pending execution"
    if not job.ask.requeue or job.ask.kind != BATCH or job.state not in ("RUNNING", "SUSPENDED"):
        return "Requested operation is presently disabled"
    running.requeue(api, job, hold)
    return ""


def _requeue_held(api: Api, job: Job) -> str:
    return _requeue(api, job, "JobHeldUser" if os.getuid() == job.ask.uid else "JobHeldAdmin")


def _suspend(api: Api, job: Job) -> str:
    if os.getuid() != 0:
        return "Access/permission denied"
    if job.state == "PENDING":
        return "Job is pending execution"
    if job.state != "RUNNING":
        return "Job has already finished" if job.state != "SUSPENDED" else "Job is not running"
    running.suspend(api, job)
    return ""


def _resume(api: Api, job: Job) -> str:
    if os.getuid() != 0:
        return "Access/permission denied"
    if job.state != "SUSPENDED":
        return "Job is not suspended"
    running.resume(api, job)
    return ""


def _top(words: Sequence[str]) -> int:
    """Only for administrators, as in Slurm unless it is configured otherwise."""
    if os.getuid() != 0:
        raise Usage("\n".join(f"Access/permission denied for job {word}" for word in words))
    raise Usage("scontrol: error: top is not supported by Phalanx: update the job's Priority (docs/guide/slurm.md)")


def _create(words: Sequence[str]) -> int:
    kind = words[0] if words else ""
    said = {name.lower(): value for name, _, value in (word.partition("=") for word in words) if value}
    if kind.lower() not in ("reservation", "res") and "reservationname" not in said and "reservation" not in said:
        raise Usage(f"scontrol: error: create {kind} is not supported by Phalanx (docs/guide/slurm.md)")
    if not is_administrator(site.load(Api.open())):
        raise Usage("Error creating the reservation: Invalid user id")
    api = Api.open()
    print(f"Reservation created: {reservations.create(api, site.load(api), said)}")
    return 0


def _delete(words: Sequence[str]) -> int:
    text = " ".join(words)
    kind, _, name = text.replace(" ", "=", 1).partition("=")
    if kind.lower() not in ("reservation", "reservationname"):
        raise Usage(f"scontrol: error: delete {text} is not supported by Phalanx (docs/guide/slurm.md)")
    if not is_administrator(site.load(Api.open())):
        raise Usage(f"delete_reservation {text}: Invalid user id")
    if not reservations.delete(Api.open(), name):
        raise Usage(f"delete_reservation {text}: Requested reservation is invalid")
    return 0


def _update(words: Sequence[str]) -> int:
    if not words:
        raise Usage("too few arguments for update keyword")
    pairs = [word.partition("=") for word in words]
    said = {name.lower(): value for name, equals, value in pairs if equals}
    if len(words) >= 2 and words[0].lower() == "job":
        said = {"jobid": words[1], **said}
    if named := next((name for name in ("jobid", "job") if name in said), None):
        return _update_job(said.pop(named), said)
    if "nodename" in said:
        return _update_node(said.pop("nodename"), said)
    if "reservationname" in said or "reservation" in said:
        if not is_administrator(site.load(Api.open())):
            raise Usage("Error updating the reservation: Invalid user id")
        api = Api.open()
        reservations.update(api, site.load(api), said)
        print("Reservation updated.")
        return 0
    if "partitionname" in said:
        return _update_partition(said.pop("partitionname"), said)
    raise Usage(
        "No valid entity in update command\nInput line must include "
        '"NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
    )


class Refusal(PhalanxError):
    """The message of Slurm for a change that is not made, before `for job`."""


def _update_job(text: str, said: dict[str, str]) -> int:
    api, status = Api.open(), 0
    for job in _named(api, text):
        if not running.may(api, job):
            say(f"{_DENIED}{job.id}")
            status = 1
            continue
        ask = msgspec.structs.replace(job.ask)
        try:
            needs = _change(api, job, ask, said)
        except (dependency.DependencyError, Refusal) as error:
            say(f"{error} for job {job.id}")
            status = 1
            continue
        before = api.get(path_of(job.number, job.ask))["metadata"].get("annotations") or {}
        changed: dict[str, Any] = {**_UNSAID, **scheduling_words(ask, needs or dependency.Needs())}
        kept = _HELD if needs is not None else (*_HELD, *_AFTER)
        changed |= {name: before.get(name) for name in kept}
        if ask.hold and not job.ask.hold:
            changed["phalanx.dev/hold"] = ask.hold
        changed[ASK] = msgspec.json.encode(ask).decode()
        api.patch(path_of(job.number, job.ask), {"metadata": {"annotations": changed}})
    return status


def _change(api: Api, job: Job, ask: Ask, said: dict[str, str]) -> dependency.Needs | None:
    """Into `ask`; the new dependencies, if they are others. Raises Usage, DependencyError."""
    needs = None
    for name, value in said.items():
        match name:
            case "timelimit":
                ask.limit_min = _minutes(value)
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
                ask.throttle = _count("ArrayTaskThrottle", value)
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


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Usage(f'Invalid {name} value: "{text}"')
    return int(text)


def _nice(text: str) -> int:
    found = _count("Nice", text.removeprefix("-")) if text else 100
    if text.startswith("-") and os.getuid() != 0:
        raise Refusal("Access/permission denied")
    return -found if text.startswith("-") else found


def _minutes(text: str) -> int | None:
    try:
        return times.read_limit_min(text)
    except times.TimeError:
        raise Usage("scontrol: error: Invalid TimeLimit value") from None


def _at(text: str) -> float:
    try:
        return times.read_moment(text, time.time())
    except times.TimeError:
        raise Usage(f"Invalid time specification (pos=0): {text}") from None


def _write(words: Sequence[str]) -> int:
    """write batch_script JOB [FILE]: the script, into slurm-JOB.sh or to standard output (-)."""
    if len(words) < 2 or words[0] != "batch_script":
        raise Usage("scontrol: error: write takes batch_script and a job id")
    import base64

    api = Api.open()
    [job, *_] = _named(api, words[1])
    data = api.get(f"{SECRETS}/{secret_of(job.number, job.ask)}").get("data") or {}
    text = base64.b64decode(data.get("PHALANX_SCRIPT", "")).decode(errors="replace")
    target = words[2] if len(words) > 2 else f"slurm-{job.number}.sh"
    if target == "-":
        print(text, end="")
        return 0
    with open(target, "w") as file:
        file.write(text)
    print(f"batch script for job {job.number} written to {target}")
    return 0


def _ping() -> int:
    api = Api.open()
    api.get("/version")
    print("Slurmctld(primary) at the API server is UP")
    return 0


# --- nodes and partitions -------------------------------------------------------------------------------------------


def _reboot(words: Sequence[str]) -> int:
    """Drain these nodes: whoever reboots them finds them empty, and `state=resume` ends it. `nextstate=` and ASAP are
    taken; a node is not resumed by itself, for nobody here knows that it came back."""
    said = {name.lower(): value for name, _, value in (word.partition("=") for word in words) if value}
    names = [word for word in words if "=" not in word and word.upper() != "ASAP"]
    if not names:
        raise Usage("scontrol: error: reboot: no node was named")
    _require_operator("scontrol_reboot_nodes error: Access/permission denied")
    return _update_node(",".join(names), {"state": "DRAIN", "reason": said.get("reason", "Reboot requested")})


def _require_operator(text: str) -> None:
    if not is_administrator(site.load(Api.open())):
        raise Usage(text)


def _update_node(text: str, said: dict[str, str]) -> int:
    """State=DRAIN with a Reason, and State=RESUME."""
    state = said.pop("state", "").upper()
    reason = said.pop("reason", "")
    if said or state not in ("DRAIN", "RESUME", "UNDRAIN", "DOWN", ""):
        raise Usage(
            f"scontrol: error: of a node only State=DRAIN|RESUME and Reason can be changed here, not {said or state}"
        )
    if state in ("DRAIN", "DOWN") and not reason:
        raise Usage("You must specify a reason when DOWNING or DRAINING a node. Request denied")
    by = pwd.getpwuid(os.getuid()).pw_name
    drains = state in ("DRAIN", "DOWN")
    annotations: Object = {
        "slurm.phalanx.dev/reason": reason if drains else None,
        "slurm.phalanx.dev/reason-by": by if drains else None,
        "slurm.phalanx.dev/reason-at": times.moment(time.time()) if drains else None,
    }
    api = Api.open()
    for name in expand(text):
        try:
            api.patch(
                f"{NODES}/{name}", {"metadata": {"annotations": annotations}, "spec": {"unschedulable": drains or None}}
            )
        except Refused as error:
            why = "Invalid node name specified" if error.code == 404 else error.message
            say(f"slurm_update error: {why}")
            return 1
    return 0


def _update_partition(name: str, said: dict[str, str]) -> int:
    api = Api.open()
    here = site.load(api)
    partition = here.partition(name)
    if partition is None:
        raise Usage("slurm_update error: Invalid partition name specified")
    for key, value in said.items():
        match key:
            case "state":
                if value.upper() not in _PARTITION_STATES:
                    raise Usage(
                        f"scontrol: error: Invalid input: state={value}\n"
                        "scontrol: error: Acceptable State values are UP, DOWN, DRAIN and INACTIVE\n"
                        "slurm_update error: No error"
                    )
                partition.state = value.upper()
            case "maxtime":
                partition.max_min = _minutes(value)
            case "defaulttime":
                partition.default_min = _minutes(value)
            case "maxnodes":
                partition.max_nodes = None if value.upper() == "UNLIMITED" else _count("MaxNodes", value)
            case _:
                raise Usage(f"scontrol: error: Update of {key} is not supported by Phalanx (docs/guide/slurm.md)")
    here.partitions = here.all
    site.store(api, here)
    return 0
