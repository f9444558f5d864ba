"""Read the power saving settings of a slurm.conf: the nodes that programs power up and down (`State=CLOUD`), and the
times and rates for this.

`phalanx slurm node-groups` converts these nodes to node groups for `phalanx scheduler --node-groups`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.conf import DEFAULT, cloud_node, is_cloud, lines_of, number_of, pairs_of
from phalanx.slurm.cluster.site import FEATURE, CloudNode
from phalanx.slurm.notation.hostlist import compress, expand

NEVER = "36500d"  # the maximum time in a file of node groups


@dataclass(slots=True, kw_only=True)
class Power:
    """The settings of power saving, with the defaults of Slurm 22.05. `suspend_s`: the idle time in seconds after which
    a node is powered down; None if nodes are never powered down. `suspend_rate`, `resume_rate`: nodes per minute; 0 for
    no limit. `excluded`: nodes that are never powered down."""

    suspend_program: str = ""
    resume_program: str = ""
    suspend_s: int | None = None
    suspend_timeout_s: int = 30
    resume_timeout_s: int = 60
    suspend_rate: int = 60
    resume_rate: int = 300
    excluded: list[str] = field(default_factory=list)
    user: str = "root"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudNodes:
    """The nodes of one line `NodeName` with `State=CLOUD`. The defaults of `NodeName=DEFAULT` are included. `has`: the
    resources of each node."""

    names: list[str]
    has: CloudNode
    features: list[str]


def read_power(text: str, file: str = "slurm.conf") -> tuple[Power, list[CloudNodes]]:
    """Return the settings, and the nodes that programs power up and down. `text`: the content of the slurm.conf. Raises
    PhalanxError with the line."""
    power, found = Power(), list[CloudNodes]()
    defaults: dict[str, str] = {}
    for number, line in lines_of(text):
        try:
            words = dict(pairs_of(line))
            if words.get("nodename") == DEFAULT:
                defaults |= words
            elif "nodename" in words:
                if is_cloud({**defaults, **words}):
                    found.append(_nodes({**defaults, **words}))
            elif "partitionname" not in words:
                for name, value in words.items():
                    _set(power, name, value)
        except PhalanxError as error:
            raise PhalanxError(f"{file}, line {number}: {error}") from None
    return power, found


def _set(power: Power, name: str, value: str) -> None:
    match name:
        case "suspendprogram" | "resumeprogram":
            if not value.startswith("/"):
                raise PhalanxError(f"{name}={value}: it must be an absolute path, as for slurmctld")
            setattr(power, name.replace("program", "_program"), value)
        case "suspendtime":
            never = value.upper() in ("INFINITE", "-1")
            power.suspend_s = None if never else number_of(name, value)
        case "suspendtimeout" | "resumetimeout":
            setattr(power, name.replace("timeout", "_timeout_s"), number_of(name, value))
        case "suspendrate" | "resumerate":
            setattr(power, name.replace("rate", "_rate"), number_of(name, value))
        case "suspendexcnodes":
            if ":" in value:
                raise PhalanxError(f"{name}={value}: a number of nodes (`:`) is not supported; write only names")
            power.excluded = expand(value)
        case "slurmuser":
            power.user = value.partition("(")[0]
        case _:
            pass


def _nodes(words: dict[str, str]) -> CloudNodes:
    features = words.get("features", words.get("feature", "")).split(",")
    return CloudNodes(names=expand(words["nodename"]), has=cloud_node(words), features=[one for one in features if one])


def node_groups(power: Power, nodes: list[CloudNodes]) -> dict[str, object]:
    """Return the content of a file of node groups. Raises PhalanxError if the slurm.conf has no cloud nodes, or lacks
    one of the programs."""
    if not nodes:
        raise PhalanxError("it has no nodes with State=CLOUD, so there are no node groups")
    if not power.resume_program or not power.suspend_program:
        missing = "SuspendProgram" if power.resume_program else "ResumeProgram"
        raise PhalanxError(f"it has nodes with State=CLOUD, but no {missing}, so no program powers them")
    return {"nodeGroups": list(_groups(power, nodes))}


def _groups(power: Power, nodes: list[CloudNodes]) -> Iterator[dict[str, object]]:
    taken: set[str] = set()
    for number, each in enumerate(nodes, 1):
        stem = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\d+$", "", each.names[0]).lower()).strip("-") or "cloud"
        name = stem if stem not in taken else f"{stem}-{number}"
        taken.add(name)
        gpus = {"nvidia.com/gpu": each.has.gpus} if each.has.gpus else {}
        excluded = [one for one in power.excluded if one in each.names]
        provider: dict[str, object] = {
            "nodes": compress(each.names),
            "resumeProgram": power.resume_program,
            "suspendProgram": power.suspend_program,
            "user": power.user,
            "resumeTimeout": power.resume_timeout_s,
            "suspendTimeout": power.suspend_timeout_s,
            "resumeRate": power.resume_rate,
            "suspendRate": power.suspend_rate,
            **({"excluded": compress(excluded)} if excluded else {}),
        }
        yield {
            "name": name,
            "provider": {"slurm": provider},
            "max": len(each.names),
            "idle": NEVER if power.suspend_s is None else power.suspend_s,
            "delay": power.resume_timeout_s,
            "timeout": power.resume_timeout_s,
            "allocatable": {"cpu": each.has.cpus, "memory": f"{each.has.memory_mib}Mi", **gpus},
            **({"labels": {f"{FEATURE}{one}": "true" for one in each.features}} if each.features else {}),
        }
