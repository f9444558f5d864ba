"""Add, change and delete accounts, and copy the changes to their queues. Run `sacctmgr dump` and `sacctmgr load`, which
write and read the tree of accounts as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phalanx.slurm.accounts import limits
from phalanx.slurm.accounts.dump import dump as dumped
from phalanx.slurm.accounts.dump import read_dump
from phalanx.slurm.accounts.tree import carry, is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.site import Account, Site
from phalanx.slurm.commands.accounting.entities.words import (
    FAIR,
    NOTHING,
    NOTHING_DELETED,
    SiteChange,
    may,
    names_of,
    refuse_unknown,
    require,
    require_any,
    require_known,
    shares_of,
)
from phalanx.slurm.options import Usage, say


def add(asked: SiteChange, said: dict[str, str], bare: list[str]) -> int:
    api, here = asked.api, asked.here
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
    known = {"name", "names", "account", "accounts", "parent", "description", "organization", *FAIR, *limits.NAMES}
    refuse_unknown(said, known)
    shares = next((said[key] for key in FAIR if key in said), None)
    own = {key: text for key in limits.NAMES.keys() & said.keys() if (text := _limit(key, said[key]))}
    lines = [" Adding Account(s)", *(f"  {name}" for name in fresh), " Settings"]
    lines.append(f"  Description     = {said.get('description') or 'Account Name'}")
    lines.append(f"  Organization    = {said.get('organization') or 'Parent/Account Name'}")
    lines += [" Associations", *(f"  A = {name:<10} C = {here.cluster:<10}" for name in fresh)]
    settings = {"Fairshare": shares or "", **{limits.SPELLED[key]: text for key, text in own.items()}}
    shown = [f"  {name:<13} = {text}" for name, text in sorted(settings.items()) if text]
    if shown or parent != "root":
        lines += [" Settings", *shown, f"  Parent        = {parent}"]
    print("\n".join(lines), flush=True)
    if not may(here, *([parent] if parent != "root" else [])):
        raise Usage(" Problem adding accounts: Access/permission denied")
    if not asked.agreed():
        return 0
    for name in fresh:
        here.accounts[name] = Account(
            description=said.get("description") or name,
            organization=said.get("organization") or (parent if parent != "root" else name),
            parent="" if parent == "root" else parent,
            shares=shares_of(shares) if shares is not None else 1,
            limits=dict(own),
            number=here.next_number(),
        )
        carry(api, here, name)
    site.store(api, here)
    return 0


def _limit(key: str, value: str) -> str:
    """Return the value of the limit `key` in the form in which it is stored; "" for no limit. Raises Usage."""
    try:
        return limits.written(key, value) if value else ""
    except limits.LimitError:
        raise limits.unknown(key, value) from None


def modify(asked: SiteChange, change: dict[str, str], names: list[str]) -> int:
    api, here = asked.api, asked.here
    require_known(change, {*FAIR, "description", "organization", "parent", *limits.NAMES})
    known = [one.lower() for one in names if one.lower() in here.accounts]
    for key in FAIR:
        if key in change:
            shares_of(change[key])
    fresh = {key: _limit(key, change[key]) for key in limits.NAMES.keys() & change.keys()}
    require_any(here)
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
        account.limits = {key: text for key, text in {**account.limits, **fresh}.items() if text}
        if change.keys() - {"description", "organization"}:
            lines.append(f"  C = {here.cluster:<10} A = {name} of {account.parent or 'root'}")
        # The users of an account inherit all of its limits except Grp*. So a change of such a limit lists their
        # associations too.
        if {key for key in change.keys() & limits.NAMES.keys() if not key.startswith("grp")}:
            lines += [f"  C = {here.cluster:<10} A = {one:<20} U = {user:<9}" for one, user in _within(here, name)]
    print("\n".join([*_described(change, known), *([" Modified account associations...", *lines] if lines else [])]))
    if not asked.agreed():
        return 0
    for name in known:
        carry(api, here, name)
    site.store(api, here)
    return 0


def _described(change: dict[str, str], names: list[str]) -> list[str]:
    """Return the lines that report a change of the description or the organization of accounts."""
    changed = {"description", "organization"} & change.keys()
    return [" Modified accounts...", *(f"  {name}" for name in names)] if changed else []


def _require_above(here: Site, names: list[str], change: dict[str, str]) -> None:
    """Raise Usage if the caller may not change these accounts. A coordinator may change the shares, the limits and the
    parent of accounts below the coordinated account, and must coordinate the new parent as well. A coordinator may not
    change the coordinated account itself, but only its users."""
    parent = change.get("parent", "root").lower()
    if parent != "root" and parent not in here.accounts:
        raise Usage(f" Parent Account {parent} doesn't exist.")
    if {"description", "organization"} & change.keys():
        require(here)
    above = [here.accounts[name].parent for name in names] + ([change["parent"].lower()] if "parent" in change else [])
    require(here, *above)


def _within(here: Site, name: str) -> list[tuple[str, str]]:
    """Return (account, user) for each user of the account `name` and of all accounts below it."""
    found = [(name, user) for user, theirs in sorted(here.users.items()) if name in {one.account for one in theirs}]
    below = sorted(one for one, account in here.accounts.items() if account.parent == name)
    return [*found, *(pair for one in below for pair in _within(here, one))]


def delete(asked: SiteChange, names: list[str]) -> int:
    """Delete accounts, with the associations of their users and with their queues. As in Slurm, a coordinator may not
    delete accounts."""
    api, here = asked.api, asked.here
    known = [name.lower() for name in names if name.lower() in here.accounts]
    if not known:
        print(NOTHING_DELETED)
        return 1
    require(here)
    print("\n".join([" Deleting accounts...", *(f"  {name}" for name in known)]))
    if not asked.agreed():
        return 0
    for name in known:
        del here.accounts[name]
        for user in list(here.users):
            here.users[user] = [one for one in here.users[user] if one.account != name]
        carry(api, here, name)
    site.store(api, here)
    return 0


def _file(words: Sequence[str]) -> tuple[str, str]:
    """Return the first word without `=`, and the value of `file=`. Raises Usage."""
    bare = next((word for word in words if "=" not in word), "")
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    if unknown := set(pairs) - {"file", "cluster"}:
        name = min(unknown)
        raise Usage(f" Unknown option: {name}={pairs[name]}")
    return bare, pairs.get("file", "")


def dump(words: Sequence[str]) -> int:
    """Run `dump CLUSTER [file=NAME]`, which writes the tree of accounts to a file, by default CLUSTER.cfg."""
    here = site.load(ApiClient.open())
    cluster, file = _file(words)
    if not cluster:
        raise Usage(" We need a cluster to dump.")
    if cluster != here.cluster:
        raise Usage(f" Cluster {cluster} doesn't exist.")
    text = dumped(here)
    try:
        Path(file or f"{here.cluster}.cfg").write_text(text)
    except OSError as error:
        raise Usage(f"sacctmgr: error: {file or here.cluster + '.cfg'} cannot be written: {error.strerror}") from None
    for line in text.splitlines():
        say(f"sacctmgr: {line}")
    return 0


def load(words: Sequence[str]) -> int:
    """Run `load FILE` or `load file=NAME`, which adds the entities of a file. An existing entity with the name of a
    loaded entity is replaced; all other entities stay."""
    bare, file = _file(words)
    api = ApiClient.open()
    here = site.load(api)
    if not (file or bare):
        raise Usage(" No filename given, specify one with file=''")
    try:
        text = Path(file or bare).read_text()
    except OSError as error:
        raise Usage(f' Unable to read "{file or bare}": {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise Usage(f"sacctmgr: error: {file or bare} cannot be read: {error}") from None
    if not is_administrator(here):
        raise Usage(" Problem loading a file: Access/permission denied")
    before = set(here.accounts)
    told = read_dump(text, here, Path(file or bare).name)
    for name in here.accounts:  # parents come before their children
        carry(api, here, name)
    site.store(api, here)
    for one in told:
        if not one.taken:
            say(f"sacctmgr: {one.text}: {one.became}")
    print(f" {len(set(here.accounts) - before)} accounts added, {sum(one.taken for one in told)} lines loaded")
    return 0
