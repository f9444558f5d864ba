"""Write the file of `sacctmgr dump`, which has a line for each account and user, and read such a file into a site.

Cluster - 'name':Fairshare=1:QOS='normal' Parent - 'root' Account - 'lab':Description='the
lab':Fairshare=40:GrpTRES=cpu=100 Parent - 'lab' User - 'ada':DefaultAccount='lab':Fairshare=1:QOS='fast,normal'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from phalanx.errors import PhalanxError
from phalanx.slurm.accounts import limits
from phalanx.slurm.cluster.conf import LineReport, Tell
from phalanx.slurm.cluster.site import Account, Association, Qos, Site
from phalanx.slurm.notation import times

PARENT_SHARES = 2147483647  # the number that stands for Fairshare=parent
_LINE = re.compile(r"(\w+) - '?([^':]+)'?(?::(.*))?")
_PAIR = re.compile(r"([^:=]+)=('(?:[^']*)'|[^:]*)(?::|$)")
_LONG = {"maxwall": "MaxWallDurationPerJob", "maxtres": "MaxTRESPerJob", "grpjobs": "GrpJobs", "grptres": "GrpTRES",
         "grpsubmitjobs": "GrpSubmitJobs", "maxjobs": "MaxJobs", "maxsubmitjobs": "MaxSubmitJobs"}  # fmt: skip


# --- written --------------------------------------------------------------------------------------------------------


def dump(site: Site) -> str:
    return "\n".join([f"Cluster - '{site.cluster}':Fairshare=1:QOS='normal'", *_below(site, "root")]) + "\n"


def _below(site: Site, parent: str) -> Iterator[str]:
    users = [(user, one) for user, own in sorted(site.users.items()) for one in own if one.account == parent]
    accounts = sorted(name for name, one in site.accounts.items() if (one.parent or "root") == parent)
    root = parent == "root" and "root" not in site.users
    if not users and not accounts and not root:
        return
    yield f"Parent - '{parent}'"
    if root:
        yield "User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1"
    for user, one in users:
        yield _user(site, user, one)
    for name in accounts:
        account = site.accounts[name]
        yield ":".join([f"Account - '{name}'", f"Description='{account.description or name}'",
                        f"Organization='{account.organization or name}'", f"Fairshare={_shares(account.shares)}",
                        *_limits(account.limits)])  # fmt: skip
    for name in accounts:
        yield from _below(site, name)


def _user(site: Site, user: str, one: Association) -> str:
    coordinates = sorted(name for name, account in site.accounts.items() if user in account.coordinators)
    default = site.users[user][0].account
    words = [f"User - '{user}'", f"DefaultAccount='{default}'"]
    first = one.account == default
    words += [f"AdminLevel='{site.admins[user]}'"] if first and user in site.admins else []
    words += [f"Coordinator='{','.join(coordinates)}'"] if first and coordinates else []
    words += [f"Fairshare={_shares(one.shares)}", *_limits(one.limits)]
    words += [f"DefaultQOS='{one.default_qos}'"] if one.default_qos else []
    words += [f"QOS='{','.join(sorted(one.qos))}'"] if one.qos else []
    return ":".join(words)


def _shares(shares: int) -> int:
    return PARENT_SHARES if shares < 0 else shares


def _limits(own: Mapping[str, str]) -> list[str]:
    found = []
    for name, text in sorted(own.items(), key=lambda one: _LONG.get(one[0], one[0])):
        value = str(times.read_limit_min(text)) if name == "maxwall" else text
        found.append(f"{_LONG.get(name, name)}={value}")
    return found


# --- read -----------------------------------------------------------------------------------------------------------


def read_dump(text: str, site: Site, file: str = "dump") -> list[LineReport]:
    """Add the accounts, users and QOS of a dump to the site, and return a report about each setting. `file`: the file
    name to show in the reports. Raises PhalanxError if a line is invalid, or if the parent of an account does not
    exist."""
    told: list[LineReport] = []
    coordinators: list[tuple[str, str, Tell]] = []  # applied at the end, because the account may come later in the file
    parent = ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        match = _LINE.fullmatch(bare)
        where = f"{file}, line {number}"
        if match is None:
            raise PhalanxError(f"{where}: {bare[:80]} is not a line of a `sacctmgr dump`")
        kind, name = match[1].lower(), match[2]
        words = {key.lower(): value.strip("'") for key, value in _PAIR.findall(match[3] or "")}

        def tell(text: str, became: str, taken: bool = True, number: int = number) -> None:
            told.append(LineReport(file=file, line=number, text=text, became=became, taken=taken))

        match kind:
            case "cluster":
                site.cluster = name
                tell(f"Cluster - {name}", "the name of the cluster")
                for key, value in words.items():
                    if (key, value) not in (("fairshare", "1"), ("qos", "normal")):
                        tell(f"{key}={value}", "set limits of the topmost queues instead", False)
            case "parent":
                if name != "root" and name not in site.accounts:
                    why = "the line of an account must come before the lines that name it"
                    raise PhalanxError(f"{where}: the account {name} does not exist: {why}")
                parent = "" if name == "root" else name
            case "account":
                _read_account(site, name, parent, words, tell)
            case "user":
                named = words.pop("coordinator", "").split(",")
                coordinators += [(name, account, tell) for account in named if account]
                _read_user(site, name, parent or "root", words, tell)
            case _:
                tell(bare, "it has no effect in Phalanx", False)
    for user, name, tell in coordinators:
        if name in site.accounts and user not in site.accounts[name].coordinators:
            site.accounts[name].coordinators.append(user)
        tell(f"{user}: Coordinator={name}", f"coordinator of {name}", name in site.accounts)
    return sorted(told, key=lambda one: one.line)


def _read_account(site: Site, name: str, parent: str, words: dict[str, str], tell: Tell) -> None:
    made = Account(description=words.pop("description", ""), organization=words.pop("organization", ""), parent=parent,
                   shares=_read_shares(words.pop("fairshare", "1")))  # fmt: skip
    kept = site.accounts.get(name)
    made.coordinators = kept.coordinators if kept is not None else []
    made.number = (kept.number if kept is not None else 0) or site.next_number()
    for key, value in words.items():
        known = limits.ALSO.get(key, key)
        try:
            if known not in limits.NAMES:
                tell(f"{name}: {key}={value}", "queues do not have this limit (docs/guide/slurm.md)", False)
            elif text := limits.written(known, value):
                made.limits[known] = text
        except limits.LimitError:
            tell(f"{name}: {key}={value}", "the value is invalid, or names a resource that queues do not limit", False)
    site.accounts[name] = made
    above = f", below {parent}" if parent else ""
    tell(f"Account - {name}", f"the queue {name}{above}, with {made.shares} shares")


def _read_user(site: Site, user: str, account: str, words: dict[str, str], tell: Tell) -> None:
    default = words.pop("defaultaccount", account)
    if user == "root" and account == "root":
        tell("User - root", "root has all rights without an association", False)
        return
    one = Association(account=account, shares=_read_shares(words.pop("fairshare", "1")))
    one.qos = [each for each in words.pop("qos", "").split(",") if each]
    one.default_qos = words.pop("defaultqos", "")
    for name in [*one.qos, *([one.default_qos] if one.default_qos else [])]:
        if name not in site.qos:
            site.qos[name] = Qos(description=name)
            tell(f"{user}: QOS={name}", "a QOS without limits, because a dump does not contain its limits", True)
    if (level := words.pop("adminlevel", "None")) != "None":
        site.admins[user] = level
        tell(f"{user}: AdminLevel={level}", f"the admin level of {user} in sacctmgr is {level}")
    for key, value in words.items():
        known = limits.ALSO.get(key, key)
        try:
            if known not in limits.OF_USER:
                tell(f"{user}: {key}={value}", "Phalanx has no such limit for users (docs/guide/slurm.md)", False)
            else:
                one.limits = limits.changed(one.limits, limits.OF_USER, known, value)
        except limits.LimitError:
            tell(f"{user}: {key}={value}", "the value is invalid", False)
    kept = [each.number for each in site.users.get(user, []) if each.account == account]
    one.number = sum(kept) or site.next_number()
    theirs = [each for each in site.users.get(user, []) if each.account != account]
    site.users[user] = sorted([*theirs, one], key=lambda each: each.account != default)
    tell(f"User - {user}", f"{user} may use {account}, with {_name(one.shares)} shares there")


def _name(shares: int) -> str:
    return "its parent's" if shares < 0 else str(shares)


def _read_shares(text: str) -> int:
    if text.lower() == "parent" or text == str(PARENT_SHARES):
        return -1
    if not text.isdecimal():
        raise PhalanxError(f"Fairshare={text} is not a whole number")
    return int(text)
