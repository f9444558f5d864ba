"""Users in accounts: what sacctmgr changes of one."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.slurm.accounts import limits
from phalanx.slurm.cluster.site import Association, Site
from phalanx.slurm.commands.accounting.entities.words import FAIR, shares_of
from phalanx.slurm.options import Usage


def change_association(here: Site, one: Association, change: Mapping[str, str]) -> bool:
    changed = False
    for name, value in change.items():
        if name in FAIR:
            one.shares, changed = shares_of(value), True
        elif name.startswith("qos"):
            wanted = [each for each in value.split(",") if each]
            for each in wanted:
                if each not in here.qos:
                    raise Usage(
                        f"sacctmgr: error: You gave a bad qos '{each}'. Valid QOS's are {','.join(here.qos)}\n"
                        f" Unknown option: {name}={value}\n Use keyword 'where' to modify condition"
                    )
            kept = one.qos or ["normal"]
            one.qos = wanted if name == "qos" else sorted({*kept, *wanted} if name == "qos+" else {*kept} - {*wanted})
            changed = True
        elif name == "defaultqos":
            one.default_qos, changed = value, True
        elif (limit := limits.ALSO.get(name, name)) in limits.OF_USER:
            try:
                one.limits, changed = limits.changed(one.limits, limits.OF_USER, limit, value), True
            except limits.LimitError:
                raise limits.unknown(name, value) from None
    return changed


def make_default(theirs: list[Association], account: str) -> None:
    """Make the association with this account the user's default."""
    theirs.sort(key=lambda one: one.account != account)
