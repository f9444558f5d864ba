"""sacctmgr: accounts, users, associations and QOS: shown, added, changed, deleted.

Changes are written to the queues and to the site, with the rights of the caller at the API server: root, operators and
administrators may change everything, coordinators their accounts.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping, Sequence

from phalanx.slurm.accounts import tables
from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api, Refused
from phalanx.slurm.commands.accounting.entities import accounts, qos, users, wckeys
from phalanx.slurm.commands.accounting.entities.words import DENIED, entity, names_of, pairs
from phalanx.slurm.options import OptionReader, Usage, declare, interactive

OPTIONS = declare("help,h immediate,i noheader,n parsable,p parsable2,P quiet,Q readonly,r version,V") + declare(
    "associations,s json oneliner,o verbose,v yaml", refused=True
)
_READER = OptionReader("sacctmgr", OPTIONS)
_WCKEY, _EVENT = "WCKey,Cluster,User", "Cluster,NodeName,Start,End,State,Reason,By"
_NAMES = {"qos": "QOS", "coordinator": "coordinator"}  # in messages, where they have no plural
_ADD = (
    "No valid entity in add command\n"
    'Input line must include "Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"'
)
_LIST = (
    "No valid entity in list command\n"
    'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"'
)


_MODIFY = (
    "No valid entity in modify command\n"
    'Input line must include "Account", "Cluster", "Federation", "Job", "QOS", "Resource" or "User"'
)
_DELETE = (
    "No valid entity in delete command\n"
    'Input line must include "Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"'
)
# What a site without these shows.
_NONE = {
    "federation": "Federation    Cluster ID             Features     FedState \n"
    "---------- ---------- -- -------------------- ------------ \n",
    "problem": "   Cluster    Account       User                                  Problem \n"
    "---------- ---------- ---------- ---------------------------------------- \n",
    "resource": "      Name     Server     Type  Count % Allocated ServerType \n"
    "---------- ---------- -------- ------ ----------- ---------- \n",
    "runawayjobs": "Runaway Jobs: No runaway jobs found\n",
}
# What only operators may list -> Slurm's refusal for others.
_OPERATORS = {
    "problem": "sacctmgr: error: Access/permission denied\n Error with request: Access/permission denied",
    "runawayjobs": "sacctmgr: error: You must have an AdminLevel>=Operator to fix runaway jobs",
}
VERSION = "22.05.8"


def run(words: Sequence[str]) -> int:
    typed, arguments = _READER.read(words)
    said = dict(typed)
    if not arguments:
        return interactive("sacctmgr", run)
    verb = arguments[0].lower()
    if verb in ("exit", "quit"):
        return 0
    if verb == "version":
        print(f"slurm-wlm {VERSION}")
        return 0
    if verb in ("dump", "load"):
        from phalanx.slurm.commands.accounting.sacctmgr_files import dump, load

        return (dump if verb == "dump" else load)(arguments[1:])
    known: dict[str, Callable[[Sequence[str], Mapping[str, str | None]], int]] = {
        "list": _list, "show": _list, "add": _add, "create": _add, "modify": _modify, "update": _modify,
        "delete": _delete, "remove": _delete,
    }  # fmt: skip
    if verb not in known:
        if verb == "shutdown":
            raise Usage(" Problem shutting down server: Access/permission denied")
        if verb in ("archive", "clear", "reconfigure"):
            raise Usage(f"sacctmgr: error: {verb} is not supported by Phalanx (docs/guide/slurm.md)")
        raise Usage(f"invalid keyword: {arguments[0]}")
    try:
        return known[verb](arguments[1:], said)
    except Refused as error:  # what the commands let pass, the API server may not
        if error.code != 403:
            raise
        kind = entity("".join(arguments[1:2]))
        problem = f" Problem adding {_NAMES.get(kind, f'{kind}s')}: Access/permission denied"
        raise Usage(f"{problem if known[verb] is _add else DENIED}\n {error.message}") from None


# --- list -----------------------------------------------------------------------------------------------------------


def _list(words: Sequence[str], options: Mapping[str, str | None]) -> int:
    kind = entity(words[0]) if words else ""
    word = words[0].lower() if words else ""
    if empty := next((name for name in _NONE if len(word) >= 3 and name.startswith(word)), ""):
        if empty in _OPERATORS and not is_administrator(site.load(Api.open())):
            raise Usage(_OPERATORS[empty])
        print(_NONE[empty], end="")
        return 0
    if not kind or kind == "coordinator":
        raise Usage(_LIST)
    said, bare = pairs(words[1:])
    flags = {one.lower() for one in bare if one.lower().startswith("with")}
    bare = [one for one in bare if one.lower() not in flags]
    here = site.load(Api.open())
    if kind == "wckey" and not is_administrator(here):
        raise Usage(DENIED)
    form = said.get("format") or said.get("fields") or ""
    match kind:
        case "account":
            rows = tables.accounts(here, names_of(said, bare, "name", "names", "account", "accounts"))
            tables.show(rows, form or "Account,Descr,Org", options)
        case "user":
            names = names_of(said, bare, "name", "names", "user", "users")
            rows = tables.users(here, names, each="withassoc" in flags)
            tables.show(rows, form or "User,Def Acct,Admin", options)
        case "association":
            names, within = names_of(said, [], "user", "users"), names_of(said, bare, "account", "accounts")
            tables.show(tables.associations(here, within, names), form or tables.ASSOCIATION, options)
        case "qos":
            tables.show(tables.qos(here, names_of(said, bare, "name", "names")), form or tables.QOS, options)
        case "tres":
            tables.show(tables.tres(), (form or "Type,TRESName%15,ID").replace("Name,", "TRESName,"), options)
        case "wckey":
            tables.show(tables.wckeys(here, names_of(said, bare, "name", "names", "wckey")), form or _WCKEY, options)
        case "event":
            from phalanx.slurm.jobs.nodes import nodes

            names = names_of(said, [], "node", "nodes")
            tables.show(tables.events(here, nodes(Api.open()), names), form or _EVENT, options)
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
            return accounts.add(api, here, said, bare)
        case "user":
            return users.add(api, here, said, bare)
        case "qos":
            return qos.add(api, here, said, bare)
        case "coordinator":
            return users.coordinate(api, here, said, remove=False)
        case "cluster":
            here.cluster = bare[0] if bare else here.cluster
            site.store(api, here)
            return 0
    if kind in ("wckey", "tres", "event", "") and (words[0] if words else "").lower() not in ("federation", "resource"):
        raise Usage(_ADD)
    raise Usage(f"sacctmgr: error: add {words[0] if words else ''} is not supported by Phalanx (docs/guide/slurm.md)")


# --- modify ---------------------------------------------------------------------------------------------------------


def _modify(words: Sequence[str], options: Mapping[str, str | None]) -> int:
    kind = entity(words[0]) if words else ""
    if not kind:
        raise Usage(_MODIFY)
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
        return qos.modify(api, here, change, names_of(which, bare, "name", "names"))
    if kind == "user":
        return users.modify(api, here, change, which, names_of(which, bare, "name", "names", "user", "users"))
    return accounts.modify(api, here, change, names_of(which, bare, "name", "names", "account", "accounts"))


# --- delete ---------------------------------------------------------------------------------------------------------


def _delete(words: Sequence[str], options: Mapping[str, str | None]) -> int:
    kind = entity(words[0]) if words else ""
    if not kind:
        raise Usage(_DELETE)
    said, bare = pairs(words[1:])
    api = Api.open()
    here = site.load(api)
    names = (
        names_of(said, bare, "name", "names", kind, f"{kind}s")
        if kind != "user"
        else names_of(said, bare, "name", "names", "user", "users")
    )
    me = pwd.getpwuid(os.getuid()).pw_name
    if not is_administrator(here) and not any(me in one.coordinators for one in here.accounts.values()):
        raise Usage(DENIED)
    match kind:
        case "coordinator":
            return users.coordinate(api, here, said, remove=True)
        case "user" if keys := names_of(said, [], "wckey", "wckeys"):
            return wckeys.delete(api, here, names, keys)
        case "user":
            return users.delete(api, here, names, names_of(said, [], "account", "accounts"))
        case "account":
            return accounts.delete(api, here, names)
        case "qos":
            return qos.delete(api, here, names)
        case _:
            raise Usage(
                f"sacctmgr: error: delete {words[0] if words else ''} is not supported by Phalanx (docs/guide/slurm.md)"
            )
