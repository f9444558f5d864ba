"""scontrol update of nodes and partitions, and reboot."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Sequence

from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api, Object, Refused
from phalanx.slurm.commands.cluster.verbs.values import count, minutes
from phalanx.slurm.jobs.nodes import PATH as NODES
from phalanx.slurm.notation import times
from phalanx.slurm.notation.hostlist import expand
from phalanx.slurm.options import Usage, say

_PARTITION_STATES = ("UP", "DOWN", "DRAIN", "INACTIVE")


def reboot(words: Sequence[str]) -> int:
    """Drain these nodes: whoever reboots them finds them empty, and `state=resume` ends it. `nextstate=` and ASAP are
    taken; a node is not resumed by itself, for nobody here knows that it came back."""
    said = {name.lower(): value for name, _, value in (word.partition("=") for word in words) if value}
    names = [word for word in words if "=" not in word and word.upper() != "ASAP"]
    if not names:
        raise Usage("scontrol: error: reboot: no node was named")
    _require_operator("scontrol_reboot_nodes error: Access/permission denied")
    return update_node(",".join(names), {"state": "DRAIN", "reason": said.get("reason", "Reboot requested")})


def _require_operator(text: str) -> None:
    if not is_administrator(site.load(Api.open())):
        raise Usage(text)


def update_node(text: str, said: dict[str, str]) -> int:
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


def update_partition(name: str, said: dict[str, str]) -> int:
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
                partition.max_min = minutes(value)
            case "defaulttime":
                partition.default_min = minutes(value)
            case "maxnodes":
                partition.max_nodes = None if value.upper() == "UNLIMITED" else count("MaxNodes", value)
            case _:
                raise Usage(f"scontrol: error: Update of {key} is not supported by Phalanx (docs/guide/slurm.md)")
    here.partitions = here.all
    site.store(api, here)
    return 0
