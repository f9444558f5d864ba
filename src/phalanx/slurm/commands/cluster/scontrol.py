"""scontrol: show and change jobs, nodes, partitions and reservations."""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import sys
from collections.abc import Callable, Sequence

from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.cluster.verbs.hold import (
    hold,
    message_of,
    notify,
    pid_of,
    pids_of,
    requeue,
    requeue_held,
    resume,
    suspend,
    to_running,
    top,
    wait_for,
)
from phalanx.slurm.commands.cluster.verbs.nodes import create, delete, reboot
from phalanx.slurm.commands.cluster.verbs.show import show, write
from phalanx.slurm.commands.cluster.verbs.update import update
from phalanx.slurm.options import OptionReader, Usage, declare, interactive, require_cluster

OPTIONS = declare(
    "all,a details,d federation future,F help,h hide local cluster|clusters,M= oneliner,o quiet,Q sibling uid,u= usage "
    "verbose,v version,V"
)
_READER = OptionReader("scontrol", OPTIONS)
VERSION = "22.05.8"
# Keywords that set how an interactive scontrol shows results. In Phalanx they have no effect.
_SETTINGS = ("all", "cluster", "completing", "details", "hide", "oneliner", "quiet", "verbose")
_ENDS = ("exit", "quit")
# keyword that only administrators may use -> Slurm's refusal for other users. These keywords control daemons of Slurm,
# which Phalanx does not have.
_OF_DAEMONS = {
    "abort": "slurm_shutdown error: Invalid user id",
    "shutdown": "slurm_shutdown error: Invalid user id",
    "takeover": "scontrol: error: slurm_get_port: Address family '0' not supported\n"
    "scontrol: error: Error connecting, bad data: family = 0, port = 0\n"
    "slurm_takeover error: Unable to contact slurm controller (connect failure)",
    "cancel_reboot": "slurm_update error: Invalid user id",
    "fsdampeningfactor": "slurm_set_fs_dampeningfactor error: Permission denied",
    "schedloglevel": "slurm_set_schedlog_level error: Permission denied",
    "setdebug": "slurm_set_debug_level error: Permission denied",
    "setdebugflags": "slurm_set_debug_flags error: Permission denied",
}
# Keyword -> the name of its argument in Slurm's messages. Other keywords of `_OF_DAEMONS` accept any argument.
_ARGUMENTS = {"setdebug": "debug level", "schedloglevel": "schedlog level", "fsdampeningfactor": "dampening factor"}
_LEVELS = ("quiet", "fatal", "error", "info", "verbose", *(f"debug{count}" for count in ("", 2, 3, 4, 5)))
_NEED_ONE = (*_ARGUMENTS, "setdebugflags")
# The messages that --quiet suppresses: messages about a job, and refusals of the server. Messages about an invalid
# command line are printed.
_QUIET = re.compile(
    r"too few arguments for keyword:(?!write$|notify$)|too many arguments for keyword:show$|invalid entity:|"
    r"(?!scontrol: ).* for job \S+$|\d+_[\d,-]+: |scontrol_print_job |slurm_(?!update )\w+ error: |slurm_load_\w+: |"
    r"invalid (debug|schedlog) |Usage: setdebugflags|(Node|Partition|Reservation|Job) .* not found$|"
    r"No .* in the system$"
)
_QUIET_SETTINGS = ("all", "hide")  # with --quiet their arguments are ignored
_REFUSED = ("bbstat", "dwstat")


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words)
    said = dict(typed)
    if "help" in said or "usage" in said:
        print("scontrol [<OPTION>] [<COMMAND>]")
        return 0
    if "clusters" in said:
        require_cluster("scontrol", said["clusters"] or "", site.load(ApiClient.open()).cluster)
    oneline, details = "oneliner" in said, "details" in said
    if not arguments:
        return interactive("scontrol", lambda words: _command(words, oneline, details))
    if "quiet" in said:
        return _quietly(arguments, oneline, details)
    return _command(arguments, oneline, details)


def _quietly(arguments: Sequence[str], oneline: bool, details: bool) -> int:
    """Run a command with --quiet, and return its exit code. As in Slurm, messages about jobs are suppressed, and errors
    in the command line are printed."""
    if arguments[0].lower() in _QUIET_SETTINGS:
        return 0
    shown, said = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(said):
            status = _command(arguments, oneline, details)
    except Usage as error:
        said.write(error.text + "\n")
        status = error.status
    for text, stream in ((shown, sys.stdout), (said, sys.stderr)):
        kept = (line for line in text.getvalue().splitlines(keepends=True) if not _QUIET.match(line.rstrip("\n")))
        stream.write("".join(kept))
    return status


def _command(arguments: Sequence[str], oneline: bool, details: bool) -> int:
    typed, *rest = arguments
    known: dict[str, Callable[[], int]] = {
        **dict.fromkeys(_ENDS, lambda: 0),
        **dict.fromkeys(_SETTINGS, lambda: _set(typed, rest)),
        "cluster": lambda: _choose(rest),
        "show": lambda: show(rest, oneline, details),
        "hold": lambda: hold(rest, "JobHeldUser"),
        **dict.fromkeys(("uhold", "holdu"), lambda: hold(rest, "JobHeldUser", typed)),
        "release": lambda: hold(rest, ""),
        "update": lambda: update(rest),
        "write": lambda: write(rest),
        "ping": lambda: _ping(rest),
        "requeue": lambda: to_running("requeue", rest, requeue),
        "requeuehold": lambda: to_running("requeuehold", rest, requeue_held),
        "suspend": lambda: to_running("suspend", rest, suspend),
        "resume": lambda: to_running("resume", rest, resume),
        "top": lambda: top(rest),
        "create": lambda: create(rest),
        "delete": lambda: delete(rest),
        "reconfigure": _reconfigure,
        "reboot": lambda: reboot(rest),
        "notify": lambda: notify(rest),
        "pidinfo": lambda: pid_of(rest),
        "wait_job": lambda: wait_for(rest),
        "version": lambda: _version(rest),
        "errnumstr": lambda: message_of(rest),
        "listpids": lambda: pids_of(rest),
        "getent": lambda: 0,
        "token": _token,
        "help": lambda: print("scontrol [<OPTION>] [<COMMAND>]") or 0,
    }
    verb = _verb(typed.lower(), [*known, *_OF_DAEMONS, *_REFUSED])
    if verb in known:
        return known[verb]()
    if verb in _OF_DAEMONS and (os.getuid() != 0 or not rest):
        raise Usage(_wrong_argument(verb, rest) or _OF_DAEMONS[verb])
    if not verb:
        raise Usage(f"invalid keyword: {typed}")
    raise Usage(f"scontrol: error: {verb} is not supported by Phalanx (docs/guide/slurm.md)")


_LEAST = 3  # an abbreviated keyword must have at least this many letters


def _verb(typed: str, known: Sequence[str]) -> str:
    """Return the first keyword of `known` that begins with the typed text; "" if there is none."""
    if typed in known:
        return typed
    found = [one for one in known if len(typed) >= _LEAST and one.startswith(typed)]
    return found[0] if found else ""


def _set(typed: str, rest: Sequence[str]) -> int:
    """Accept and ignore a keyword that sets how results are shown. Raises Usage if the keyword has arguments."""
    if rest:
        raise Usage(f"too many arguments for {'' if typed == 'verbose' else 'keyword:'}{typed}"
                    f"{' keyword' if typed == 'verbose' else ''}")  # fmt: skip
    return 0


def _choose(rest: Sequence[str]) -> int:
    """Run `cluster NAME`, which sets the cluster of the following commands. Raises Usage if NAME is not this
    cluster."""
    if rest:
        require_cluster("scontrol", rest[0], site.load(ApiClient.open()).cluster)
    return 0


def _wrong_argument(verb: str, rest: Sequence[str]) -> str:
    """Return Slurm's message about an invalid argument of a keyword in `_OF_DAEMONS`; "" if the argument is valid."""
    if not rest:
        if verb == "cancel_reboot":
            return "missing argument for keyword:cancel_reboot"
        return f"too few arguments for keyword:{verb}" if verb in _NEED_ONE else ""
    value = rest[0]
    if verb in _ARGUMENTS and not value.isdecimal() and (verb != "setdebug" or value.lower() not in _LEVELS):
        return f"invalid {_ARGUMENTS[verb]}: {value}"
    if verb == "setdebugflags" and value[:1] not in ("+", "-"):
        return f"invalid debug flag: {value}\nUsage: setdebugflags [+|-]NAME"
    if verb == "shutdown" and value not in ("slurmctld", "controller"):
        return f"invalid shutdown argument:{value}"
    return f"takeover: invalid backup controller index ({value})" if verb == "takeover" else ""


def _token() -> int:
    """Raise Usage for `scontrol token`. Slurm without auth/jwt fails with the same message. In Phalanx, `phalanx login`
    issues tokens."""
    raise Usage("Error fetching token")


def _reconfigure() -> int:
    if os.getuid() != 0:
        raise Usage("slurm_reconfigure error: Invalid user id")
    return 0


def _version(rest: Sequence[str]) -> int:
    print(f"slurm-wlm {VERSION}", flush=True)
    if rest:
        raise Usage("too many arguments for version keyword")
    return 0


_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _ping(rest: Sequence[str]) -> int:
    if rest:
        raise Usage("too many arguments for keyword:ping")
    api = ApiClient.open()
    api.get("/version")
    host = api.endpoint()[0]
    print(f"Slurmctld(primary) at {socket.gethostname() if host in _LOOPBACK else host} is UP")
    return 0
