"""Limits of an account, as sacctmgr names them, and the limits of the queue that they become.

Only those that mean the same in both are taken: MaxJobs of an account is what each of its users may have, and so are a
queue's limits per user.
"""

from __future__ import annotations

from typing import Any

from phalanx.errors import PhalanxError
from phalanx.slurm.notation import amounts, times

# sacctmgr's name -> (the queue's scope, its field)
NAMES = {
    "grpjobs": ("total", "running"),
    "grpsubmitjobs": ("total", "submitted"),
    "grptres": ("total", "resources"),
    "maxjobs": ("perUser", "running"),
    "maxsubmitjobs": ("perUser", "submitted"),
    "maxtres": ("perJob", "resources"),
    "maxwall": ("perJob", "wall"),
}
_RESOURCES = {"cpu": "cpu", "mem": "memory", "gres/gpu": "nvidia.com/gpu"}
NONE = "-1"  # takes a limit away


class LimitError(PhalanxError):
    """A value that cannot be."""


def written(name: str, value: str) -> str:
    """As it is kept and shown; empty: no limit. Raises LimitError."""
    if value == NONE:
        return ""
    try:
        match NAMES[name][1]:
            case "resources":
                return _tres(value)
            case "wall":
                minutes = times.read_limit_min(value)
                return "" if minutes is None else times.long_elapsed(minutes * 60)
            case _:
                return str(int(value))
    except (ValueError, amounts.AmountError, times.TimeError):
        raise LimitError(f"{name}={value}") from None


def _tres(value: str) -> str:
    """`cpu=10,mem=5000M`; cpu=-1 takes one away."""
    found = []
    for part in value.split(","):
        name, _, text = part.partition("=")
        if name not in _RESOURCES:
            raise LimitError(part)
        if text != NONE:
            found.append(f"{name}={amounts.memory(amounts.read_mib(text)) if name == 'mem' else int(text)}")
    return ",".join(found)


def of_queue(limits: dict[str, str]) -> dict[str, Any]:
    """What stands in a queue's `spec.limits`."""
    found: dict[str, Any] = {}
    for name, text in limits.items():
        scope, field = NAMES[name]
        if field == "resources":
            pairs = (part.split("=") for part in text.split(","))
            value: Any = {_RESOURCES[one]: f"{each}i" if one == "mem" else each for one, each in pairs}
        elif field == "wall":
            value = f"{(times.read_limit_min(text) or 0) * 60}s"
        else:
            value = int(text)
        found.setdefault(scope, {})[field] = value
    return found
