"""Add, change and delete QOS."""

from __future__ import annotations

import msgspec

from phalanx.slurm.accounts.limits import change_qos, qos_settings
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.site import Qos
from phalanx.slurm.commands.accounting.entities.words import (
    NOTHING,
    NOTHING_DELETED,
    SiteChange,
    may,
    names_of,
    require,
)
from phalanx.slurm.options import Usage


def add(asked: SiteChange, said: dict[str, str], bare: list[str]) -> int:
    api, here = asked.api, asked.here
    if not (names := names_of(said, bare, "name", "names")):
        raise Usage(" Need name of qos to add.")
    fresh = [one for one in names if one not in here.qos]
    if not fresh:
        print(" Nothing new added.")
        return 1
    made = Qos(priority=0)
    change_qos(here, made, {key: text for key, text in said.items() if key not in ("name", "names")})
    lines = [" Adding QOS(s)", *(f"  {name}" for name in fresh), " Settings"]
    lines += [f"  Description    = {said.get('description') or name}" for name in fresh[:1]]
    print("\n".join([*lines, *qos_settings(made, said)]), flush=True)
    if not may(here):
        raise Usage(" Problem adding QOS: Access/permission denied")
    if not asked.agreed():
        return 0
    for name in fresh:
        here.qos[name] = msgspec.structs.replace(made, description=said.get("description") or name)
    site.store(api, here)
    return 0


def modify(asked: SiteChange, change: dict[str, str], names: list[str]) -> int:
    api, here = asked.api, asked.here
    known = [one for one in names if one in here.qos]
    # If no named QOS exists, the changes are tried on a new QOS, so that invalid values are reported.
    for one in [here.qos[name] for name in known] or [Qos()]:
        change_qos(here, one, change)
    require(here)
    if not known:
        print(NOTHING)
        return 1
    print("\n".join([" Modified qos...", *(f"  {name}" for name in known)]))
    if asked.agreed():
        site.store(api, here)
    return 0


def delete(asked: SiteChange, names: list[str]) -> int:
    """Delete QOS. `normal` is never deleted, because jobs that request no QOS have it."""
    api, here = asked.api, asked.here
    known = [name for name in names if name in here.qos and name != "normal"]
    if not known:
        print(NOTHING_DELETED)
        return 1
    require(here)
    print("\n".join([" Deleting QOS(s)...", *(f"  {name}" for name in known)]))
    if not asked.agreed():
        return 0
    for name in known:
        del here.qos[name]
    site.store(api, here)
    return 0
