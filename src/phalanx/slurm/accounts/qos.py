"""QOS as sacctmgr changes and shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from phalanx.slurm.accounts import limits
from phalanx.slurm.cluster.site import Qos, Site
from phalanx.slurm.options import Usage

_FLAGS = {
    one.lower(): one
    for one in ("DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes",
                "PartitionMinNodes", "PartitionTimeLimit", "RequiresReservation", "UsageFactorSafe")
}  # fmt: skip


def change_qos(here: Site, qos: Qos, change: Mapping[str, str]) -> None:
    """Raises Usage for what Slurm has and is not carried out here."""
    for key, value in change.items():
        name = limits.ALSO.get(key, key)
        if name in limits.OF_QOS:
            try:
                qos.limits = limits.changed(qos.limits, limits.OF_QOS, name, value)
            except limits.LimitError:
                raise limits.unknown(key, value) from None
        elif name == "priority":
            qos.priority = int(_number("Priority", value, whole=True)) if value not in ("", limits.NONE) else 0
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
                    raise limits.unknown(key, value)
        elif name == "usagefactor":
            qos.usage_factor = _number("UsageFactor", value, whole=False)
        else:
            raise Usage(f"sacctmgr: error: {key} is not supported by Phalanx (docs/guide/slurm.md)")


def _number(name: str, value: str, *, whole: bool) -> float:
    """Raises Usage."""
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
