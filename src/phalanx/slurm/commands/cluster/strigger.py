"""strigger: run a program when a job ends or nears its limit, or when a node goes down or comes back.

No daemon watches. Each trigger is a process of its user on this machine. The process checks every few seconds, runs the
program once with the job or the nodes as its argument, and ends. Triggers are kept in a directory of the user on this
machine, and are lost at a reboot.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs.nodes import Node, nodes
from phalanx.slurm.jobs.view import jobs
from phalanx.slurm.notation.hostlist import compress, expand
from phalanx.slurm.options import OptionReader, Usage, declare, say

OPTIONS = declare(
    "set get clear down,d up,u drained,D fini,f time,t idle,I node,n=? jobid,j= id,i= user= program,p= offset,o= "
    "noheader,N quiet,Q flags= help verbose,v version,V"
) + declare(
    "backup_slurmctld_assumed_control,B backup_slurmctld_failure backup_slurmctld_resumed_operation burst_buffer "
    "clusters,M= fail,F front_end primary_database_failure,g primary_database_resumed_operation,G "
    "primary_slurmctld_acct_buffer_full,e primary_slurmctld_failure,a primary_slurmctld_resumed_control,b "
    "primary_slurmctld_resumed_operation,A primary_slurmdbd_failure,h primary_slurmdbd_resumed_operation,H "
    "reconfig,r resume,R",
    refused=True,
)
_READER = OptionReader("strigger", OPTIONS)
_EVENTS = ("down", "up", "drained", "idle", "fini", "time")
_OF_JOBS = ("fini", "time")
_LOOK_S = 2.0
_NONE = (
    "strigger: error: You must specify a trigger (--down, --up, --reconfig, --time, --fini, --burst_buffer,\n"
    "--primary_slurmctld_failure,\n--primary_slurmctld_resumed_operation,\n--primary_slurmctld_resumed_control,\n"
    "--primary_slurmctld_acct_buffer_full,\n--backup_slurmctld_failure,\n--backup_slurmctld_resumed_operation,\n"
    "--backup_slurmctld_as_ctrl,\n--primary_slurmdbd_failure,\n--primary_slurmdbd_resumed_operation,\n"
    "--primary_database_failure, or \n--primary_database_resumed_operation)\n"
)


class Trigger(msgspec.Struct, kw_only=True):
    """`about`: a job's number, or the nodes as typed (`*`: any). `offset_s`: the time after the job's time limit
    (--time); negative: before it. `pid`: the id of the watching process."""

    id: int
    event: str
    about: str
    offset_s: int
    program: str
    user: str
    pid: int = 0


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    if "help" in said:
        say("Usage: strigger [--set | --get | --clear] [OPTIONS]")
        return 0
    modes = [mode for mode in ("set", "get", "clear") if mode in said]
    if len(modes) != 1:
        raise Usage("strigger: error: You must use exactly one of the following options: --set, --get or --clear")
    match modes[0]:
        case "set":
            return _set(said)
        case "clear":
            return _clear(said)
        case _:
            return _get(said)


def _folder() -> Path:
    """Raises PhalanxError if somebody else made it."""
    tmp = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - below: whose the folder is, and that none but he may write
    folder = Path(tmp) / f"phalanx-slurm-triggers-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    seen = folder.lstat()
    if seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise PhalanxError(f"{folder} belongs to somebody else: triggers cannot be kept there")
    return folder


def _known() -> list[Trigger]:
    """Return the triggers whose process still runs, sorted by id. Remove the files of others."""
    found = []
    for file in _folder().glob("*.json"):
        with suppress(OSError, msgspec.MsgspecError):
            trigger = msgspec.json.decode(file.read_bytes(), type=Trigger)
            if Path(f"/proc/{trigger.pid}").exists():
                found.append(trigger)
            else:
                file.unlink(missing_ok=True)
    return sorted(found, key=lambda one: one.id)


def _set(said: Mapping[str, str | None]) -> int:
    events = [event for event in _EVENTS if event in said]
    if not events:
        raise Usage(_NONE)
    program = said.get("program") or ""
    if not program:
        raise Usage("strigger: error: You must specify a --program value")
    if not os.access(program.split()[0], os.X_OK):
        raise Usage("strigger: error: Invalid --program value, file not found")
    event = events[0]
    about = (said.get("jobid") or "") if event in _OF_JOBS else (said.get("node") or "*")
    if event in _OF_JOBS and not about.isdigit():
        raise Usage("strigger: error: You must specify a --jobid value")
    if event in _OF_JOBS and not [job for job in jobs(Api.open(), [int(about)], places=False) if job.live]:
        raise Usage("slurm_set_trigger: Invalid job id specified")
    try:
        offset_s = int(said.get("offset") or 0)
    except ValueError:
        raise Usage(f"strigger: error: Invalid --offset value {said['offset']}") from None
    number = max((one.id for one in _known()), default=0) + 1
    user = pwd.getpwuid(os.getuid()).pw_name
    trigger = Trigger(id=number, event=event, about=about, offset_s=offset_s, program=program, user=user)
    line = [sys.executable, "-I", "-m", __name__, msgspec.json.encode(trigger).decode()]
    process = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        cwd="/",
    )  # fmt: skip
    trigger.pid = process.pid
    (_folder() / f"{number}.json").write_bytes(msgspec.json.encode(trigger))
    return 0


def _get(said: Mapping[str, str | None]) -> int:
    found = [one for one in _known() if _meant(one, said)]
    rows = [("TRIG_ID", "RES_TYPE", "RES_ID", "TYPE", "OFFSET", "USER", "PROGRAM")]
    rows = rows if found and "noheader" not in said else []
    for one in found:
        kind = "job" if one.event in _OF_JOBS else "node"
        rows.append((str(one.id), kind, one.about, one.event, str(one.offset_s), one.user, one.program))
    for number, kind, about, event, offset, user, program in rows:
        print(f"{number:>7} {kind:>8} {about:>7} {event:>23} {offset:>6} {user:>8} {program}")
    return 0


def _meant(one: Trigger, said: Mapping[str, str | None]) -> bool:
    return (
        said.get("id") in (None, str(one.id))
        and said.get("user") in (None, one.user)
        and ("jobid" not in said or (one.event in _OF_JOBS and one.about == said["jobid"]))
    )


def _clear(said: Mapping[str, str | None]) -> int:
    if not any(said.get(name) for name in ("id", "jobid", "user")):
        raise Usage("strigger: error: You must specify a --id, --jobid, or --user to clear")
    found = [one for one in _known() if _meant(one, said)]
    if not found:
        raise Usage("slurm_clear_trigger: No such process")
    for one in found:
        with suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGTERM)
        (_folder() / f"{one.id}.json").unlink(missing_ok=True)
    return 0


# --- the process that watches -----------------------------------------------------------------------------------------


def watch(trigger: Trigger) -> None:
    """Wait for the event, then run the program. For jobs an earlier event counts too; for nodes only events from now
    on."""
    before: dict[str, str] | None = None
    while True:
        with suppress(PhalanxError, OSError):
            api = Api.open()
            if trigger.event in _OF_JOBS:
                happened = trigger.about if _job_is_there(api, trigger) else ""
            else:
                now = {node.name: _state(node) for node in nodes(api)}
                happened = changed(trigger, before, now)
                before = now
            if happened:
                break
        time.sleep(_LOOK_S)  # a process of the user's own, which looks now and then until it happens
    subprocess.run([*trigger.program.split(), happened], check=False)


def _job_is_there(api: Api, trigger: Trigger) -> bool:
    """Return whether the event of a job has happened: its end, or the time `offset_s` after its time limit (before it,
    if negative)."""
    number = int(trigger.about)
    found = [job for job in jobs(api, [number], places=False) if job.first == number]
    if trigger.event == "fini" or not any(job.live for job in found):
        return not any(job.live for job in found)
    job = found[0]
    if job.start_s is None or job.ask.limit_min is None:
        return False
    return time.time() >= job.start_s + job.ask.limit_min * 60 + trigger.offset_s


def _state(node: Node) -> str:
    return "down" if not node.ready else "drained" if node.drained else "up"


def changed(trigger: Trigger, before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    """Return the nodes whose state changed to the event's state between two checks, as a host list; "": no node."""
    if before is None:
        return ""
    wanted = None if trigger.about == "*" else set(expand(trigger.about))
    event = {"idle": "up"}.get(trigger.event, trigger.event)
    found = [
        name for name, state in now.items()
        if state == event and before.get(name, event) != event and (wanted is None or name in wanted)
    ]  # fmt: skip
    return compress(found, ordered=True)


if __name__ == "__main__":
    watch(msgspec.json.decode(sys.argv[1], type=Trigger))
