"""sacctmgr: accounts, users, associations and QOS: shown, added, changed, deleted.

Only root changes anything. What is changed is written into the site, and carried to the queues.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from phalanx.slurm.accounts import limits, tables
from phalanx.slurm.accounts.qos import change_qos, qos_settings
from phalanx.slurm.accounts.tree import carry, is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.cluster.site import Account, Association, Qos, Site
from phalanx.slurm.options import Reader, Usage, declare

OPTIONS = declare("help,h immediate,i noheader,n parsable,p parsable2,P quiet,Q readonly,r version,V") + declare(
    "associations,s json oneliner,o verbose,v yaml", refused=True
)
_READER = Reader("sacctmgr", OPTIONS)
_ENTITIES = ("account", "association", "cluster", "coordinator", "qos", "user")
_NOTHING = " Nothing modified"
_LIST = (
    "No valid entity in list command\n"
    'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"'
)
_LEVELS = {"none": "None", "operator": "Operator", "admin": "Administrator", "administrator": "Administrator"}


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words)
    said = dict(typed)
    if not arguments:
        raise Usage("sacctmgr: error: a command is expected: Phalanx has no interactive sacctmgr (docs/guide/slurm.md)")
    verb = arguments[0].lower()
    if verb in ("dump", "load"):
        from phalanx.slurm.commands.accounting.sacctmgr_files import dump, load

        return (dump if verb == "dump" else load)(arguments[1:])
    known: dict[str, Callable[[Sequence[str], Mapping[str, str | None]], int]] = {
        "list": _list, "show": _list, "add": _add, "create": _add, "modify": _modify, "update": _modify,
        "delete": _delete, "remove": _delete,
    }  # fmt: skip
    if verb not in known:
        if verb in ("archive", "clear", "reconfigure", "ping", "shutdown"):
            raise Usage(f"sacctmgr: error: {verb} is not supported by Phalanx (docs/guide/slurm.md)")
        raise Usage(f"invalid keyword: {arguments[0]}")
    return known[verb](arguments[1:], said)


def entity(word: str) -> str:
    """The entity that a word begins to say; empty: none."""
    bare = word.lower()
    bare = bare.removesuffix("s") if bare not in ("qos",) else bare
    return next((name for name in _ENTITIES if len(bare) >= 2 and name.startswith(bare)), "")


def pairs(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """name=value in lower case, and the bare words; `a+=b` is the name `a+`."""
    found: dict[str, str] = {}
    bare: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name.lower()] = value
        elif word.lower() not in ("where", "set"):
            bare += word.split(",")
    return found, [one for one in bare if one]


def _names(said: Mapping[str, str], bare: Sequence[str], *keys: str) -> list[str]:
    listed = [one for key in keys for one in said.get(key, "").split(",") if one]
    return [*listed, *bare]


def _may(here: Site, *accounts: str) -> bool:
    """Root, an administrator, or a coordinator of each of these accounts or of one above it."""
    if is_administrator(here):
        return True
    user = pwd.getpwuid(os.getuid()).pw_name
    return bool(accounts) and all(user in _coordinators(here, account) for account in accounts)


def _coordinators(here: Site, account: str) -> set[str]:
    found: set[str] = set()
    while account in here.accounts:
        found |= {*here.accounts[account].coordinators}
        account = here.accounts[account].parent
    return found


# --- list -----------------------------------------------------------------------------------------------------------


def _list(words: Sequence[str], options: Mapping[str, str | None]) -> int:
    kind = entity(words[0]) if words else ""
    if not kind:
        raise Usage(_LIST)
    said, bare = pairs(words[1:])
    flags = {one.lower() for one in bare if one.lower().startswith("with")}
    bare = [one for one in bare if one.lower() not in flags]
    here = site.load(Api.open())
    form = said.get("format") or said.get("fields") or ""
    match kind:
        case "account":
            rows = tables.accounts(here, _names(said, bare, "name", "names", "account", "accounts"))
            tables.show(rows, form or "Account,Descr,Org", options)
        case "user":
            names = _names(said, bare, "name", "names", "user", "users")
            rows = tables.users(here, names, each="withassoc" in flags)
            tables.show(rows, form or "User,Def Acct,Admin", options)
        case "association":
            users, accounts = _names(said, [], "user", "users"), _names(said, bare, "account", "accounts")
            tables.show(tables.associations(here, accounts, users), form or tables.ASSOCIATION, options)
        case "qos":
            tables.show(tables.qos(here, _names(said, bare, "name", "names")), form or tables.QOS, options)
        case _:
            tables.show([{"cluster": here.cluster}], form or "Cluster", options)
    return 0


# --- add ------------------------------------------------------------------------------------------------------------


def _add(words: Sequence[str], options: Mapping[str, str | None]) -> int:
    kind = entity(words[0]) if words else ""
    said, bare = pairs(words[1:])
    api = Api.open()
    here = site.load(api)
    match kind:
        case "account":
            return _add_account(api, here, said, bare)
        case "user":
            return _add_user(api, here, said, bare)
        case "qos":
            return _add_qos(api, here, said, bare)
        case "coordinator":
            return _coordinate(api, here, said, remove=False)
        case "cluster":
            here.cluster = bare[0] if bare else here.cluster
            site.store(api, here)
            return 0
    raise Usage(f"sacctmgr: error: add {words[0] if words else ''} is not supported by Phalanx (docs/guide/slurm.md)")


def _shares(text: str) -> int:
    if text.lower() == "parent":
        return -1
    if not text.isdigit():
        raise Usage(
            f"sacctmgr: error: Invalid value for FairShare ({text})\n Unknown option: fairshare={text}\n"
            " Use keyword 'where' to modify condition"
        )
    return int(text)


def _add_account(api: Api, here: Site, said: dict[str, str], bare: list[str]) -> int:
    names = [one.lower() for one in _names(said, bare, "name", "names", "account", "accounts")]
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
    _refuse_unknown(said, {"name", "names", "account", "accounts", "parent", "description", "organization", *_FAIR})
    shares = next((said[key] for key in _FAIR if key in said), None)
    lines = [" Adding Account(s)", *(f"  {name}" for name in fresh), " Settings"]
    lines.append(f"  Description     = {said.get('description') or 'Account Name'}")
    lines.append(f"  Organization    = {said.get('organization') or 'Parent/Account Name'}")
    lines += [" Associations", *(f"  A = {name:<10} C = {here.cluster:<10}" for name in fresh)]
    settings = [f"  Fairshare     = {shares}"] if shares is not None else []
    settings += [f"  Parent        = {parent}"] if shares is not None or parent != "root" else []
    lines += [" Settings", *settings] if settings else []
    print("\n".join(lines), flush=True)
    if not _may(here, *([parent] if parent != "root" else [])):
        raise Usage(" Problem adding accounts: Access/permission denied")
    for name in fresh:
        here.accounts[name] = Account(
            description=said.get("description") or name,
            organization=said.get("organization") or (parent if parent != "root" else name),
            parent="" if parent == "root" else parent,
            shares=_shares(shares) if shares is not None else 1,
        )
        carry(api, here, name)
    site.store(api, here)
    return 0


_FAIR = ("fairshare", "share", "shares")


def _refuse_unknown(said: Mapping[str, str], known: set[str]) -> None:
    for name, value in said.items():
        if name not in known:
            raise Usage(f" Unknown option: {name}={value}")


def _add_user(api: Api, here: Site, said: dict[str, str], bare: list[str]) -> int:
    names = _names(said, bare, "name", "names", "user", "users")
    if not names:
        raise Usage(" Need name of user to add.")
    accounts = [one.lower() for one in _names(said, [], "account", "accounts")]
    if not accounts:
        raise Usage(" Need name of account to add user to.")
    for account in accounts:
        if account != "root" and account not in here.accounts:
            raise Usage(
                f" This account '{account}' doesn't exist.\n        Contact your admin to add this account.\n"
                " No associations or wckeys created."
            )
    shares = next((said[key] for key in _FAIR if key in said), None)
    default = said.get("defaultaccount", "").lower()
    fresh = [
        (user, account)
        for user in names
        for account in accounts
        if account not in {one.account for one in here.users.get(user, ())}
    ]
    if not fresh:
        print(" Nothing new added.")
        return 1
    unknown = [user for user in names if user not in here.users]
    lines = [" Adding User(s)", *(f"  {name}" for name in unknown)] if unknown else []
    lines += [" Settings =", f"  Default Account = {default}"] if default else []
    lines.append(" Associations =")
    lines += [f"  U = {user:<9} A = {account:<10} C = {here.cluster:<10}" for user, account in fresh]
    lines.append(" Non Default Settings")
    lines += [f"  Fairshare     = {shares}"] if shares is not None else []
    print("\n".join(lines), flush=True)
    if not _may(here, *accounts):
        raise Usage(" Problem adding users: Access/permission denied")
    for user, account in fresh:
        made = Association(account=account, shares=_shares(shares) if shares is not None else 1)
        made.qos = [one for one in said.get("qos", "").split(",") if one]
        here.users.setdefault(user, []).append(made)
    for user in names if default else ():
        _first(here.users[user], default)
    for account in accounts:
        carry(api, here, account)
    site.store(api, here)
    return 0


def _first(theirs: list[Association], account: str) -> None:
    """That of this account is his default."""
    theirs.sort(key=lambda one: one.account != account)


def _add_qos(api: Api, here: Site, said: dict[str, str], bare: list[str]) -> int:
    fresh = [one for one in _names(said, bare, "name", "names") if one not in here.qos]
    if not fresh:
        print(" Nothing new added.")
        return 1
    made = Qos(priority=0)
    change_qos(here, made, {key: text for key, text in said.items() if key not in ("name", "names")})
    lines = [" Adding QOS(s)", *(f"  {name}" for name in fresh), " Settings"]
    lines += [f"  Description    = {said.get('description') or name}" for name in fresh[:1]]
    print("\n".join([*lines, *qos_settings(made, said)]))
    if not _may(here):
        raise Usage(" Problem adding qos: Access/permission denied")
    for name in fresh:
        here.qos[name] = msgspec.structs.replace(made, description=said.get("description") or name)
    site.store(api, here)
    return 0


def _coordinate(api: Api, here: Site, said: dict[str, str], *, remove: bool) -> int:
    """Users become, or are no more, coordinators of accounts."""
    names, accounts = _names(said, [], "name", "names", "user", "users"), _names(said, [], "account", "accounts")
    known = [one for one in accounts if one in here.accounts]
    if not names or not known:
        print(" Nothing new added." if not remove else " Nothing deleted")
        return 1
    _require(here, "coordinators")
    title, word = (" Removing Coordinators with user name", "From") if remove else (" Adding Coordinator User(s)", "To")
    lines = [title, *(f"  {name}" for name in names)]
    lines += [f" {word} Account(s)" + ("" if remove else " and all sub-accounts"), *(f"  {one}" for one in known)]
    for account in known:
        before = here.accounts[account].coordinators
        here.accounts[account].coordinators = [one for one in before if one not in names] + ([] if remove else names)
    if remove:
        lines.append(" Removed Coordinators (sub accounts not listed)...")
        lines += [f"  U = {name:<9} A = {account:<10}" for name in names for account in known]
    site.store(api, here)
    print("\n".join(lines))
    return 0


# --- modify ---------------------------------------------------------------------------------------------------------


def _modify(words: Sequence[str], options: Mapping[str, str | None]) -> int:
    kind = entity(words[0]) if words else ""
    if kind not in ("account", "user", "qos"):
        raise Usage(
            f"sacctmgr: error: modify {words[0] if words else ''} is not supported by Phalanx (docs/guide/slurm.md)"
        )
    at = next((at for at, word in enumerate(words) if word.lower() == "set"), len(words))
    where = list(words[1:at])
    rest = list(words[at + 1 :])
    behind = next((at for at, word in enumerate(rest) if word.lower() == "where"), len(rest))
    change, _ = pairs(rest[:behind])
    which, bare = pairs([*where, *rest[behind:]])
    api = Api.open()
    here = site.load(api)
    if kind == "qos":
        return _modify_qos(api, here, change, _names(which, bare, "name", "names"))
    if kind == "user":
        return _modify_user(api, here, change, which, _names(which, bare, "name", "names", "user", "users"))
    return _modify_account(api, here, change, _names(which, bare, "name", "names", "account", "accounts"))


_LIMITS = "grpwall grptresmins maxtresmins grptresrunmins maxtrespernode priority maxjobsaccrue grpjobsaccrue"


def _require_known(change: Mapping[str, str], known: set[str]) -> None:
    for name, value in change.items():
        if name not in known and (name in _LIMITS.split() or name in limits.NAMES):
            raise Usage(
                f"sacctmgr: error: {name} is not supported by Phalanx: set limits on the queue (docs/guide/slurm.md)"
            )
        if name not in known:
            raise limits.unknown(name, value)


def _modify_user(api: Api, here: Site, change: dict[str, str], which: dict[str, str], names: list[str]) -> int:
    _require_known(
        change,
        {
            *_FAIR,
            "defaultaccount",
            "adminlevel",
            "admin",
            "qos",
            "qos+",
            "qos-",
            "defaultqos",
            *limits.OF_USER,
            *limits.ALSO,
        },
    )
    wanted = [one for name in names for one in here.users.get(name, ())]
    if not wanted:
        print(_NOTHING)
        return 1
    accounts = _names(which, [], "account", "accounts")
    _require(here, "users", *(accounts or {one.account for one in wanted}))
    touched: list[str] = []
    for name in names:
        for one in here.users.get(name, ()):
            if accounts and one.account not in accounts:
                continue
            if _change_association(here, one, change):
                touched.append(f"  C = {here.cluster:<10} A = {one.account:<20} U = {name:<9}")
                carry(api, here, one.account)
        if account := change.get("defaultaccount", "").lower():
            _first(here.users.get(name, []), account)
        if (level := change.get("adminlevel", change.get("admin"))) is not None:
            here.admins[name] = _LEVELS.get(level.lower(), "None")
    site.store(api, here)
    print("\n".join([" Modified user associations...", *touched] if touched else
                    [" Modified users...", *(f"  {name}" for name in names)]))  # fmt: skip
    return 0


def _change_association(here: Site, one: Association, change: Mapping[str, str]) -> bool:
    changed = False
    for name, value in change.items():
        if name in _FAIR:
            one.shares, changed = _shares(value), True
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


def _modify_account(api: Api, here: Site, change: dict[str, str], names: list[str]) -> int:
    _require_known(change, {*_FAIR, "description", "organization", "parent", *limits.NAMES})
    known = [one for one in names if one in here.accounts]
    for key in _FAIR:
        if key in change:
            _shares(change[key])
    if not known:
        print(_NOTHING)
        return 1
    _require(here, "accounts", *known)
    lines = []
    for name in known:
        account = here.accounts[name]
        account.description = change.get("description", account.description)
        account.organization = change.get("organization", account.organization)
        if "parent" in change:
            account.parent = "" if change["parent"] == "root" else change["parent"].lower()
        if shares := next((change[key] for key in _FAIR if key in change), ""):
            account.shares = _shares(shares)
        for key in limits.NAMES.keys() & change.keys():
            try:
                account.limits[key] = limits.written(key, change[key])
            except limits.LimitError:
                raise limits.unknown(key, change[key]) from None
        account.limits = {key: text for key, text in account.limits.items() if text}
        lines.append(f"  C = {here.cluster:<10} A = {name} of {account.parent or 'root'}")
        if set(change) & set(limits.NAMES):
            lines += [f"  C = {here.cluster:<10} A = {one:<20} U = {user:<9}" for one, user in _within(here, name)]
        carry(api, here, name)
    site.store(api, here)
    print("\n".join([" Modified account associations...", *lines]))
    return 0


def _within(here: Site, name: str) -> list[tuple[str, str]]:
    """(account, user) of an account and those below it."""
    found = [(name, user) for user, theirs in sorted(here.users.items()) if name in {one.account for one in theirs}]
    below = sorted(one for one, account in here.accounts.items() if account.parent == name)
    return [*found, *(pair for one in below for pair in _within(here, one))]


def _modify_qos(api: Api, here: Site, change: dict[str, str], names: list[str]) -> int:
    known = [one for one in names if one in here.qos]
    if not known:
        print(_NOTHING)
        return 1
    _require(here, "qos")
    for name in known:
        change_qos(here, here.qos[name], change)
    site.store(api, here)
    print("\n".join([" Modified qos...", *(f"  {name}" for name in known)]))
    return 0


def _require(here: Site, what: str, *accounts: str) -> None:
    if not _may(here, *accounts):
        raise Usage(f" Problem modifying {what}: Access/permission denied")


# --- delete ---------------------------------------------------------------------------------------------------------


def _delete(words: Sequence[str], options: Mapping[str, str | None]) -> int:
    kind = entity(words[0]) if words else ""
    said, bare = pairs(words[1:])
    api = Api.open()
    here = site.load(api)
    names = (
        _names(said, bare, "name", "names", kind, f"{kind}s")
        if kind != "user"
        else _names(said, bare, "name", "names", "user", "users")
    )
    match kind:
        case "coordinator":
            return _coordinate(api, here, said, remove=True)
        case "user":
            return _delete_user(api, here, names, _names(said, [], "account", "accounts"))
        case "account":
            lines = [name for name in names if name in here.accounts]
            title = " Deleting accounts..."
        case "qos":
            lines = [name for name in names if name in here.qos and name != "normal"]
            title = " Deleting QOS(s)..."
        case _:
            raise Usage(
                f"sacctmgr: error: delete {words[0] if words else ''} is not supported by Phalanx (docs/guide/slurm.md)"
            )
    if not lines:
        print(" Nothing deleted")
        return 1
    _require(here, kind, *(lines if kind == "account" else []))
    for name in lines:
        if kind == "qos":
            del here.qos[name]
            continue
        del here.accounts[name]
        for user in list(here.users):
            here.users[user] = [one for one in here.users[user] if one.account != name]
        carry(api, here, name)
    site.store(api, here)
    print("\n".join([title, *(f"  {name}" for name in lines)]))
    return 0


def _delete_user(api: Api, here: Site, names: list[str], accounts: list[str]) -> int:
    gone = [
        (user, one.account)
        for user in names
        for one in here.users.get(user, ())
        if not accounts or one.account in accounts
    ]
    known = [user for user in names if user in here.users]
    if not known or (accounts and not gone):
        print(" Nothing deleted")
        return 1
    _require(here, "users", *{account for _, account in gone})
    for user in known:
        here.users[user] = [one for one in here.users[user] if (user, one.account) not in gone]
        if not accounts:
            del here.users[user]
            here.admins.pop(user, None)
    for account in {account for _, account in gone}:
        if account in here.accounts:
            carry(api, here, account)
    site.store(api, here)
    if accounts:
        lines = [f"  C = {here.cluster:<10} A = {account:<10} U = {user:<9}" for user, account in gone]
        print("\n".join([" Deleting user associations...", *lines]))
    else:
        print("\n".join([" Deleting users...", *(f"  {user}" for user in known)]))
    sys.stdout.flush()
    return 0
