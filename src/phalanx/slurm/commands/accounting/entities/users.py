"""Add, change and delete users and their associations, and add and remove coordinators of accounts."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from phalanx.slurm.accounts import limits
from phalanx.slurm.accounts.tree import carry, is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.admission import give_level
from phalanx.slurm.cluster.site import Association, Site
from phalanx.slurm.commands.accounting.entities import wckeys
from phalanx.slurm.commands.accounting.entities.words import (
    DENIED,
    FAIR,
    NO_UID,
    NOTHING,
    NOTHING_DELETED,
    SURE,
    SiteChange,
    may,
    names_of,
    require,
    require_any,
    require_known,
    shares_of,
)
from phalanx.slurm.jobs.chosen import is_user
from phalanx.slurm.options import Usage, say


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
    """Move the association with this account to the front, so that it is the default association of the user."""
    theirs.sort(key=lambda one: one.account != account)


_NOTHING_NEW = " Nothing new added."
_NO_DEFAULT = "You can not remove the default account of a user"
UNAFFECTED = (
    "sacctmgr: accounting_storage/slurmdbd: acct_storage_p_modify_assocs: Request didn't affect anything or your user "
    "doesn't have privilege to perform this action"
)
_OF_USER = ("defaultaccount", "adminlevel", "admin", "qos", "qos+", "qos-", "defaultqos")
_LEVELS = {"none": "None", "operator": "Operator", "admin": "Administrator", "administrator": "Administrator"}


def add(asked: SiteChange, said: dict[str, str], bare: list[str]) -> int:
    api, here = asked.api, asked.here
    names = [_meant(here, one) for one in names_of(said, bare, "name", "names", "user", "users")]
    if "" in names:
        say(" No blank names are allowed when adding.")
        names = [one for one in names if one]
        if not names:
            print(_NOTHING_NEW)
            return 1
    if not names:
        raise Usage(" Need name of user to add.")
    accounts = [one.lower() for one in names_of(said, [], "account", "accounts")]
    keys = names_of(said, [], "wckey", "wckeys")
    if keys and not accounts:
        return wckeys.add(asked, names, keys)
    if not accounts:
        raise Usage(" Need name of account to add user to.")
    unknown = [user for user in names if user not in here.users and user != "root"]
    if not all(is_user(user) or asked.agreed(f"{NO_UID} '{user}'\n{SURE}") for user in unknown):
        return 1
    accounts = _known(here, accounts, needed=bool(unknown))
    shares = next((said[key] for key in FAIR if key in said), None)
    default = said.get("defaultaccount", "").lower()
    if default and not is_administrator(here):
        who = pwd.getpwuid(os.getuid())
        raise Usage(
            f" Your user/uid ({who.pw_name}/{who.pw_uid}) is not AdminLevel >= Operator, you cannot set DefaultAccount."
        )
    fresh = [
        (user, account)
        for user in names
        for account in accounts
        if account not in {one.account for one in here.users.get(user, ())}
    ]
    if not fresh:
        print(_NOTHING_NEW)
        return 1
    lines = [" Adding User(s)", *(f"  {name}" for name in unknown)] if unknown else []
    lines += [" Settings =", f"  Default Account = {default}"] if default else []
    lines.append(" Associations =")
    lines += [f"  U = {user:<9} A = {account:<10} C = {here.cluster:<10}" for user, account in fresh]
    lines.append(" Non Default Settings")
    lines += [f"  Fairshare     = {shares}"] if shares is not None else []
    print("\n".join(lines), flush=True)
    if not may(here, *(account for _, account in fresh)):
        raise Usage(" Problem adding users: Access/permission denied")
    if not asked.agreed():
        return 0
    for user, account in fresh:
        made = Association(account=account, shares=shares_of(shares) if shares is not None else 1)
        made.number = here.next_number()
        made.qos = [one for one in said.get("qos", "").split(",") if one]
        here.users.setdefault(user, []).append(made)
    for user in names if default else ():
        make_default(here.users[user], default)
    site.store(api, here)
    for account in {account for _, account in fresh}:
        carry(api, here, account)
    return 0


def _known(here: Site, accounts: list[str], *, needed: bool) -> list[str]:
    """Return the accounts that exist, and print an error for each account that does not. `needed`: True to raise Usage
    if any account is missing."""
    gone = [one for one in accounts if one != "root" and one not in here.accounts]
    for account in gone:
        say(f" This account '{account}' doesn't exist.\n        Contact your admin to add this account.")
    if gone and needed:
        raise Usage(" No associations or wckeys created.")
    return [one for one in accounts if one not in gone]


def _meant(here: Site, name: str) -> str:
    """Return the name of the user whom the caller means by the typed name. As in Slurm, a new name is converted to
    lower case, and an existing name may be typed in another case."""
    if name in here.users or is_user(name):
        return name
    return next((user for user in here.users if user.lower() == name.lower()), name.lower())


def modify(asked: SiteChange, change: dict[str, str], which: dict[str, str], names: list[str]) -> int:
    api, here = asked.api, asked.here
    names = [_meant(here, name) for name in names]
    require_known(change, {*FAIR, *_OF_USER, *limits.OF_USER, *limits.ALSO})
    level = change.get("adminlevel", change.get("admin"))
    if level is not None and level.lower() not in _LEVELS:
        raise limits.unknown("adminlevel", level)
    for key in FAIR:
        if key in change:
            shares_of(change[key])
    wanted = [one for name in names for one in here.users.get(name, ())]
    accounts, own = names_of(which, [], "account", "accounts"), {one.account for one in wanted}
    if level is not None and (wanted or not is_administrator(here)):
        _require_administrator(here, names)
    mine = names in ([pwd.getpwuid(os.getuid()).pw_name], [str(os.getuid())])
    if mine and not {"defaultaccount", "adminlevel", "admin"} & change.keys() and not may(here, *(accounts or own)):
        # As in Slurm, users who may not change their own association get these messages instead of "permission denied".
        print(NOTHING, flush=True)
        raise Usage(UNAFFECTED)
    if not mine:
        require_any(here)
    if account := change.get("defaultaccount", "").lower():
        _require_within(here, names, account)
    elif "defaultaccount" in change and wanted:
        raise Usage(f"sacctmgr: error: {_NO_DEFAULT}\n Error with request: {_NO_DEFAULT}")
    if not any(not accounts or one.account in accounts for one in wanted):
        print(NOTHING)
        return 1
    # Users may try to change their default account; the API server decides.
    if not mine or change.keys() != {"defaultaccount"}:
        require(here, *(accounts or own if "defaultaccount" not in change else ()))
    touched: list[str] = []
    changed: set[str] = set()
    for name in names:
        for one in here.users.get(name, ()):
            if accounts and one.account not in accounts:
                continue
            if change_association(here, one, change):
                touched.append(f"  C = {here.cluster:<10} A = {one.account:<20} U = {name:<9}")
                changed.add(one.account)
        if account := change.get("defaultaccount", "").lower():
            make_default(here.users.get(name, []), account)
    print("\n".join([" Modified user associations...", *touched] if touched else
                    [" Modified users...", *(f"  {name}" for name in names)]))  # fmt: skip
    if not asked.agreed():
        return 0
    for name in names if level is not None else ():
        here.admins[name] = _LEVELS[(level or "").lower()]
        give_level(api, name, here.admins[name])
    site.store(api, here)
    for account in changed:
        carry(api, here, account)
    return 0


def _require_within(here: Site, names: list[str], account: str) -> None:
    """Raise Usage if not all of these users are in the account that becomes their default account."""
    others = [
        name for name in names if here.users.get(name) and account not in {one.account for one in here.users[name]}
    ]
    if others:
        print(f" Can't modify because these users aren't associated with new default account '{account}'...")
        print("\n".join(f"  U = {name} C = {here.cluster}" for name in others), flush=True)
        raise Usage("")


def _require_administrator(here: Site, names: list[str]) -> None:
    """Raise Usage if the caller is not an administrator, because only administrators may set admin levels. The text is
    the one that Slurm prints for the caller's level."""
    user = pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0 or here.admins.get(user) == "Administrator":
        return
    if here.admins.get(user, "None") != "None":
        why = "You must be a super user to modify a users admin level"
    elif names == [user]:
        why = "You can only change your own default account, default wckey nothing else"
    else:
        raise Usage(DENIED)
    raise Usage(f"sacctmgr: error: {why}\n Error with request: Access/permission denied")


def delete(asked: SiteChange, names: list[str], accounts: list[str]) -> int:
    api, here = asked.api, asked.here
    names = [_meant(here, name) for name in names]
    gone = [
        (user, one.account)
        for user in names
        for one in here.users.get(user, ())
        if not accounts or one.account in accounts
    ]
    # A user with an admin level but without accounts counts as existing. The deletion removes the admin level.
    known = [user for user in names if user in here.users or user in here.admins]
    if not known or (accounts and not gone):
        print(NOTHING_DELETED)
        return 1
    require(here, *{account for _, account in gone})
    if accounts:
        lines = [f"  C = {here.cluster:<10} A = {account:<10} U = {user:<9}" for user, account in gone]
        print("\n".join([" Deleting user associations...", *lines]))
    else:
        print("\n".join([" Deleting users...", *(f"  {user}" for user in known)]))
    if not asked.agreed():
        return 0
    for user in known:
        left = [one for one in here.users.pop(user, ()) if (user, one.account) not in gone]
        if accounts:
            here.users[user] = left
        elif here.admins.pop(user, None) is not None:
            give_level(api, user, "None")
    site.store(api, here)
    for account in {account for _, account in gone} & here.accounts.keys():
        carry(api, here, account)
    return 0


def coordinate(asked: SiteChange, said: dict[str, str], *, remove: bool) -> int:
    """Add users as coordinators of accounts, or remove them as coordinators if `remove` is True. Return the exit
    code."""
    api, here = asked.api, asked.here
    names, accounts = names_of(said, [], "name", "names", "user", "users"), names_of(said, [], "account", "accounts")
    known = [one for one in accounts if one in here.accounts]
    if not names or not known:
        print(_NOTHING_NEW if not remove else NOTHING_DELETED)
        return 1
    title, word = (" Removing Coordinators with user name", "From") if remove else (" Adding Coordinator User(s)", "To")
    lines = [title, *(f"  {name}" for name in names)]
    lines += [f" {word} Account(s)" + ("" if remove else " and all sub-accounts"), *(f"  {one}" for one in known)]
    print("\n".join(lines), flush=True)
    if not may(here, *known):
        raise Usage(DENIED if remove else " Problem adding coordinator: Access/permission denied")
    if remove:
        print(" Removed Coordinators (sub accounts not listed)...")
        print("\n".join(f"  U = {name:<9} A = {account:<10}" for name in names for account in known))
    if not asked.agreed():
        return 0
    for account in known:
        before = here.accounts[account].coordinators
        here.accounts[account].coordinators = [one for one in before if one not in names] + ([] if remove else names)
    site.store(api, here)
    return 0
