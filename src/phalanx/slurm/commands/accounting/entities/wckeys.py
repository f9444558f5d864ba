"""Add and delete WCKeys, the keys that a user may name with --wckey."""

from __future__ import annotations

from phalanx.slurm.cluster import site
from phalanx.slurm.commands.accounting.entities.words import NOTHING_DELETED, SiteChange, require


def add(asked: SiteChange, names: list[str], keys: list[str]) -> int:
    """Allow users to name these keys with --wckey. As soon as any user has keys, users without keys may not name any
    key."""
    api, here = asked.api, asked.here
    fresh = [(user, key) for user in names for key in keys if key not in here.wckeys.get(user, ())]
    if not fresh:
        print(" Nothing new added.")
        return 1
    require(here)
    lines = [f"  U = {user:<9} W = {key:<10} C = {here.cluster:<10}" for user, key in fresh]
    print("\n".join([" WCKeys =", *lines, " Non Default Settings"]))
    if not asked.agreed():
        return 0
    for user, key in fresh:
        here.wckeys[user] = sorted([*here.wckeys.get(user, ()), key])
    site.store(api, here)
    return 0


def delete(asked: SiteChange, names: list[str], keys: list[str]) -> int:
    api, here = asked.api, asked.here
    gone = [(user, key) for user in names for key in keys if key in here.wckeys.get(user, ())]
    if not gone:
        print(NOTHING_DELETED)
        return 1
    require(here)
    print("\n".join([" Deleting user WCKeys...", *(
        f"  C = {here.cluster:<10} W = {key:<20} U = {user:<9}" for user, key in gone)]))  # fmt: skip
    if not asked.agreed():
        return 0
    for user, key in gone:
        here.wckeys[user].remove(key)
    here.wckeys = {user: kept for user, kept in here.wckeys.items() if kept}
    site.store(api, here)
    return 0
