"""Read, check and translate the limits of accounts and QOS, with the names that sacctmgr uses.

The first part translates the limits of an account to the limits of its queue. A limit is translated only if it has the
same meaning for an account and for a queue. For example, MaxJobs of an account limits each of its users, as the limits
`perUser` of a queue do. The second part changes a QOS and prints its settings as sacctmgr does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.site import Qos, Site
from phalanx.slurm.notation import amounts, times
from phalanx.slurm.options import Usage

# name of a limit in sacctmgr -> (the scope in the queue's spec.limits, the field in this scope)
NAMES = {
    "grpjobs": ("total", "running"),
    "grpsubmitjobs": ("total", "submitted"),
    "grptres": ("total", "resources"),
    "maxjobs": ("perUser", "running"),
    "maxsubmitjobs": ("perUser", "submitted"),
    "maxtres": ("perJob", "resources"),
    "maxwall": ("perJob", "wall"),
    "grpwall": ("", "wall"),  # not a limit of queues; `enforced` checks it when a job is submitted
}
SPELLED = {
    "grpjobs": "GrpJobs", "grpsubmitjobs": "GrpSubmitJobs", "grptres": "GrpTRES", "maxjobs": "MaxJobs",
    "maxsubmitjobs": "MaxSubmitJobs", "maxtres": "MaxTRES", "maxwall": "MaxWall", "grpwall": "GrpWall",
}  # fmt: skip
# name of a limit of a QOS, or of a user's association -> the form of its value; `enforced` checks these limits when a
# job is submitted
OF_QOS = {
    "maxjobsperuser": "count", "maxsubmitjobsperuser": "count", "maxtresperuser": "tres", "maxtres": "tres",
    "maxwall": "wall",
}  # fmt: skip
OF_USER = {"maxjobs": "count", "maxsubmitjobs": "count", "maxtres": "tres", "maxwall": "wall"}
ALSO = {
    "maxjobspu": "maxjobsperuser", "maxsubmitpu": "maxsubmitjobsperuser", "maxsubmitjobspu": "maxsubmitjobsperuser",
    "maxsubmitperuser": "maxsubmitjobsperuser", "maxtrespu": "maxtresperuser", "maxtresperjob": "maxtres",
    "maxtrespj": "maxtres", "maxwalldurationperjob": "maxwall", "maxwallpj": "maxwall", "maxsubmit": "maxsubmitjobs",
    "grpsubmit": "grpsubmitjobs", "maxsubmitjob": "maxsubmitjobs", "maxjob": "maxjobs",
}  # fmt: skip
_COUNTS = {
    "grpjobs": "GrpJobs", "grpsubmitjobs": "GrpSubmitJobs", "maxjobs": "MaxJobs", "maxsubmitjobs": "MaxSubmitJobs",
    "maxjobsperuser": "MaxJobsPerUser", "maxsubmitjobsperuser": "MaxSubmitJobsPerUser",
}  # fmt: skip
_TRES = ("cpu", "mem", "node", "gres/gpu")
_RESOURCES = {"cpu": "cpu", "mem": "memory", "gres/gpu": "nvidia.com/gpu"}
NONE = "-1"  # the value that removes a limit


class LimitError(PhalanxError):
    """The error for an invalid value of a limit."""


def unknown(name: str, value: str) -> Usage:
    """Return sacctmgr's error message about an unknown option, or about an invalid value of a limit."""
    known = _COUNTS.get(ALSO.get(name, name))
    why = f"sacctmgr: error: Invalid value for {known} ({value})\n" if known is not None else ""
    return Usage(f"{why} Unknown option: {name}={value}\n Use keyword 'where' to modify condition")


def written(name: str, value: str) -> str:
    """Return the value of an account's limit in the form in which it is stored and shown; "" for no limit. Raises
    LimitError."""
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
                return str(amounts.read_count(value))
    except (ValueError, amounts.AmountError, times.TimeError):
        raise LimitError(f"{name}={value}") from None


def changed(before: dict[str, str], kinds: dict[str, str], name: str, value: str) -> dict[str, str]:
    """Return the limits `before` with the limit `name` set to `value`. In a TRES limit, the amounts of resources that
    `value` does not name stay unchanged. `kinds`: name of a limit -> its form. Raises LimitError."""
    try:
        match kinds[name]:
            case _ if value == NONE:
                text = ""
            case "tres":
                known = dict(part.split("=") for part in before.get(name, "").split(",") if part)
                known |= dict(_amount(part) for part in value.split(","))
                text = ",".join(f"{one}={known[one]}" for one in _TRES if known.get(one))
            case "wall":
                minutes = times.read_limit_min(value)
                text = "" if minutes is None else times.long_elapsed(minutes * 60)
            case _:
                text = str(amounts.read_count(value))
    except (ValueError, amounts.AmountError, times.TimeError):
        raise LimitError(f"{name}={value}") from None
    return {key: one for key, one in {**before, name: text}.items() if one}


def _amount(part: str) -> tuple[str, str]:
    name, _, text = part.partition("=")
    if name not in _TRES:
        raise LimitError(part)
    if text == NONE:
        return name, ""
    return name, amounts.memory(amounts.read_mib(text)) if name == "mem" else str(int(text))


def _tres(value: str) -> str:
    """Return a TRES limit in the form in which it is stored, such as `cpu=10,mem=5000M`. Resources with the amount -1
    (no limit) are left out."""
    found = []
    for part in value.split(","):
        name, _, text = part.partition("=")
        if name not in _RESOURCES:
            raise LimitError(part)
        if text != NONE:
            found.append(f"{name}={amounts.memory(amounts.read_mib(text)) if name == 'mem' else int(text)}")
    return ",".join(found)


def of_queue(limits: dict[str, str]) -> dict[str, object]:
    """Return the value of a Queue's `spec.limits` for the limits of its account."""
    found: dict[str, Any] = {}
    for name, text in limits.items():
        scope, field = NAMES[name]
        if not scope:
            continue
        if field == "resources":
            pairs = (part.split("=") for part in text.split(","))
            value: Any = {_RESOURCES[one]: f"{each}i" if one == "mem" else each for one, each in pairs}
        elif field == "wall":
            value = f"{(times.read_limit_min(text) or 0) * 60}s"
        else:
            value = int(text)
        found.setdefault(scope, {})[field] = value
    return found


# --- QOS --------------------------------------------------------------------------------------------------------------

_FLAGS = {
    one.lower(): one
    for one in ("DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes",
                "PartitionMinNodes", "PartitionTimeLimit", "RequiresReservation", "UsageFactorSafe")
}  # fmt: skip


def change_qos(here: Site, qos: Qos, change: Mapping[str, str]) -> None:
    """Set the settings `change` of a QOS. Raises Usage for an invalid value, and for settings of Slurm that Phalanx
    does not support."""
    for key, value in change.items():
        name = ALSO.get(key, key)
        if name in OF_QOS:
            try:
                qos.limits = changed(qos.limits, OF_QOS, name, value)
            except LimitError:
                raise unknown(key, value) from None
        elif name == "priority":
            qos.priority = int(_number("Priority", value, whole=True)) if value not in ("", NONE) else 0
        elif name == "description":
            qos.description = value
        elif name in ("flags", "flags+"):
            wanted = [one for one in value.lower().split(",") if one and one != NO_FLAG]
            if wrong := [one for one in wanted if one != "denyonlimit"]:
                raise Usage(f"sacctmgr: error: flags={wrong[0]} is not supported by Phalanx (docs/guide/slurm.md)")
            qos.flags = sorted({_FLAGS[one] for one in wanted} | ({*qos.flags} if name == "flags+" else set()))
        elif name == "preempt":
            qos.preempt = [one for one in value.split(",") if one]
            for one in qos.preempt:
                if one not in here.qos:
                    raise unknown(key, value)
        elif name == "usagefactor":
            qos.usage_factor = _number("UsageFactor", value, whole=False)
        else:
            raise Usage(f"sacctmgr: error: {key} is not supported by Phalanx (docs/guide/slurm.md)")


def _number(name: str, value: str, *, whole: bool) -> float:
    """Parse the value of a setting as a number. `name`: the name of the setting. Raises Usage."""
    if re.fullmatch(r"\d{1,9}" if whole else r"\d{1,9}(\.\d*)?", value) is None:
        raise Usage(f"sacctmgr: error: Invalid value for {name} ({value})\n You didn't give me anything to set")
    return float(value)


NO_FLAG = "-1"


def qos_settings(qos: Qos, said: Mapping[str, str]) -> list[str]:
    found = {
        "Flags": ",".join(qos.flags), "MaxTRESPerUser": qos.limits.get("maxtresperuser", ""),
        "MaxSubmitJobsPerUser": qos.limits.get("maxsubmitjobsperuser", ""),
        "MaxTRESPerJob": qos.limits.get("maxtres", ""),
        "MaxWall": qos.limits.get("maxwall", ""), "Preempt": ",".join(qos.preempt),
        "Priority": said.get("priority", ""), "UsageFactor": f"{qos.usage_factor:.6f}" if "usagefactor" in said else "",
        "MaxJobsPerUser": qos.limits.get("maxjobsperuser", ""),
    }  # fmt: skip
    return [
        f"  {name} = {text}" if name == "MaxJobsPerUser" else f"  {name:<24} = {text}"
        for name, text in sorted(found.items())
        if text
    ]
