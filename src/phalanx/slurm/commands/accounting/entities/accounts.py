"""Accounts: added, changed, deleted by sacctmgr, and carried to their queues."""

from __future__ import annotations

from phalanx.slurm.accounts import limits
from phalanx.slurm.accounts.tree import carry
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.cluster.site import Account, Site
from phalanx.slurm.commands.accounting.entities.words import (
    FAIR,
    NOTHING,
    NOTHING_DELETED,
    may,
    names_of,
    refuse_unknown,
    require,
    require_known,
    shares_of,
)
from phalanx.slurm.options import Usage


def add(api: Api, here: Site, said: dict[str, str], bare: list[str]) -> int:
    names = [one.lower() for one in names_of(said, bare, "name", "names", "account", "accounts")]
    if not names:
        raise Usage(" Need name of account to add.")
    parent = said.get("parent", "root").lower()
    if parent != "root" and parent not in here.accounts:
        raise Usage(
            f" Parent account '{parent}' doesn't exist on cluster {here.cluster}\n"
            "        Contact your admin to add this account.\n No associations created."
        )
    fresh = [one for one in names if one not in here.accounts]
    if not fresh:
        print(" Nothing new added.")
        return 1
    refuse_unknown(said, {"name", "names", "account", "accounts", "parent", "description", "organization", *FAIR})
    shares = next((said[key] for key in FAIR if key in said), None)
    lines = [" Adding Account(s)", *(f"  {name}" for name in fresh), " Settings"]
    lines.append(f"  Description     = {said.get('description') or 'Account Name'}")
    lines.append(f"  Organization    = {said.get('organization') or 'Parent/Account Name'}")
    lines += [" Associations", *(f"  A = {name:<10} C = {here.cluster:<10}" for name in fresh)]
    settings = [f"  Fairshare     = {shares}"] if shares is not None else []
    settings += [f"  Parent        = {parent}"] if shares is not None or parent != "root" else []
    lines += [" Settings", *settings] if settings else []
    print("\n".join(lines), flush=True)
    if not may(here, *([parent] if parent != "root" else [])):
        raise Usage(" Problem adding accounts: Access/permission denied")
    for name in fresh:
        here.accounts[name] = Account(
            description=said.get("description") or name,
            organization=said.get("organization") or (parent if parent != "root" else name),
            parent="" if parent == "root" else parent,
            shares=shares_of(shares) if shares is not None else 1,
        )
        carry(api, here, name)
    site.store(api, here)
    return 0


def modify(api: Api, here: Site, change: dict[str, str], names: list[str]) -> int:
    require_known(change, {*FAIR, "description", "organization", "parent", *limits.NAMES})
    known = [one for one in names if one in here.accounts]
    for key in FAIR:
        if key in change:
            shares_of(change[key])
    if not known:
        print(NOTHING)
        return 1
    _require_above(here, known, change)
    lines = []
    for name in known:
        account = here.accounts[name]
        account.description = change.get("description", account.description)
        account.organization = change.get("organization", account.organization)
        if "parent" in change:
            account.parent = "" if change["parent"] == "root" else change["parent"].lower()
        if shares := next((change[key] for key in FAIR if key in change), ""):
            account.shares = shares_of(shares)
        for key in limits.NAMES.keys() & change.keys():
            try:
                account.limits[key] = limits.written(key, change[key])
            except limits.LimitError:
                raise limits.unknown(key, change[key]) from None
        account.limits = {key: text for key, text in account.limits.items() if text}
        lines.append(f"  C = {here.cluster:<10} A = {name} of {account.parent or 'root'}")
        if {key for key in change.keys() & limits.NAMES.keys() if not key.startswith("grp")}:  # those pass to the users
            lines += [f"  C = {here.cluster:<10} A = {one:<20} U = {user:<9}" for one, user in _within(here, name)]
        carry(api, here, name)
    site.store(api, here)
    print("\n".join([" Modified account associations...", *lines]))
    return 0


def _require_above(here: Site, names: list[str], change: dict[str, str]) -> None:
    """Check a coordinator's change of accounts. Below his own account he may change shares, limits and the parent,
    which must be one of his accounts. Of his own account he may change the users only. Raises Usage."""
    parent = change.get("parent", "root").lower()
    if parent != "root" and parent not in here.accounts:
        raise Usage(f" Parent Account {parent} doesn't exist.")
    if {"description", "organization"} & change.keys():
        require(here)
    above = [here.accounts[name].parent for name in names] + ([change["parent"].lower()] if "parent" in change else [])
    require(here, *above)


def _within(here: Site, name: str) -> list[tuple[str, str]]:
    """(account, user) of an account and those below it."""
    found = [(name, user) for user, theirs in sorted(here.users.items()) if name in {one.account for one in theirs}]
    below = sorted(one for one, account in here.accounts.items() if account.parent == name)
    return [*found, *(pair for one in below for pair in _within(here, one))]


def delete(api: Api, here: Site, names: list[str]) -> int:
    """The users of an account lose what they have in it. Coordinators delete none, as in Slurm."""
    known = [name for name in names if name in here.accounts]
    if not known:
        print(NOTHING_DELETED)
        return 1
    require(here)
    for name in known:
        del here.accounts[name]
        for user in list(here.users):
            here.users[user] = [one for one in here.users[user] if one.account != name]
        carry(api, here, name)
    site.store(api, here)
    print("\n".join([" Deleting accounts...", *(f"  {name}" for name in known)]))
    return 0
