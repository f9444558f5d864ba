"""scontrol: look at jobs, nodes and partitions, and change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.slurm.cluster.api import Api
from phalanx.slurm.commands.cluster.verbs.hold import (
    hold,
    requeue,
    requeue_held,
    resume,
    suspend,
    to_running,
    top,
)
from phalanx.slurm.commands.cluster.verbs.nodes import reboot
from phalanx.slurm.commands.cluster.verbs.reservations import create, delete
from phalanx.slurm.commands.cluster.verbs.script import write
from phalanx.slurm.commands.cluster.verbs.show import show
from phalanx.slurm.commands.cluster.verbs.update import update
from phalanx.slurm.options import Reader, Usage, declare

OPTIONS = declare("all,a details,d help,h oneliner,o quiet,Q version,V") + declare(
    "clusters,M= future,F hide local sibling uid,u= verbose,v json yaml", refused=True
)
_READER = Reader("scontrol", OPTIONS)
VERSION = "22.05.8"
# Subcommands of Slurm that Phalanx does not have: refused by name. Any other word is unknown to scontrol.
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


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words)
    if not arguments:
        raise Usage("scontrol: error: a command is expected: Phalanx has no interactive scontrol (docs/guide/slurm.md)")
    verb, *rest = arguments
    oneline, details = "oneliner" in dict(typed), "details" in dict(typed)
    known: dict[str, Callable[[], int]] = {
        "show": lambda: show(rest, oneline, details),
        "hold": lambda: hold(rest, "JobHeldUser"),
        "uhold": lambda: hold(rest, "JobHeldUser"),
        "release": lambda: hold(rest, ""),
        "update": lambda: update(rest),
        "write": lambda: write(rest),
        "ping": _ping,
        "requeue": lambda: to_running(rest, requeue),
        "requeuehold": lambda: to_running(rest, requeue_held),
        "suspend": lambda: to_running(rest, suspend),
        "resume": lambda: to_running(rest, resume),
        "top": lambda: top(rest),
        "create": lambda: create(rest),
        "delete": lambda: delete(rest),
        "reconfigure": lambda: 0,
        "reboot": lambda: reboot(rest),
        "version": lambda: print(f"slurm-wlm {VERSION}") or 0,
    }
    if verb not in known and verb not in _REFUSED:
        raise Usage(f"invalid keyword: {verb}")
    if verb not in known:
        raise Usage(f"scontrol: error: {verb} is not supported by Phalanx (docs/guide/slurm.md)")
    return known[verb]()


def _ping() -> int:
    api = Api.open()
    api.get("/version")
    print("Slurmctld(primary) at the API server is UP")
    return 0
