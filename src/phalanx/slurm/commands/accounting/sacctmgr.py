"""sacctmgr: list, add, change and delete accounts, users, associations and QOS.

The command writes changes to the queues and to the site's ConfigMap, with the caller's rights at the API server. Root,
operators and administrators may change everything. Coordinators may change the accounts that they coordinate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.commands.accounting.entities import accounts, qos, users, wckeys
from phalanx.slurm.commands.accounting.entities.listed import show
from phalanx.slurm.commands.accounting.entities.words import (
    ARCHIVE,
    DENIED,
    SURE,
    SiteChange,
    entity,
    names_of,
    pairs,
    require_any,
    typed,
)
from phalanx.slurm.options import OptionReader, Usage, declare, interactive

OPTIONS = declare(
    "associations,s help,h immediate,i json noheader,n oneliner,o parsable,p parsable2,P quiet,Q readonly,r usage "
    "verbose,v version,V"
) + declare("yaml", refused=True)
_READER = OptionReader("sacctmgr", OPTIONS)
# The verbs. A user may leave out the letters in brackets.
_VERBS = (
    "add arc[hive] ass[ociations] cle[ar] cre[ate] del[ete] dum[p] exit he[lp] lis[t] lo[ad] m[odify] quie[t] quit "
    "read[only] rec[onfigure] rem[ove] sho[w] shut[down] u[pdate] verb[ose] vers[ion]"
)
_SAME = {"create": "add", "remove": "delete", "show": "list", "update": "modify", "quit": "exit"}
_NAMES = {"qos": "QOS", "coordinator": "coordinator"}  # entities that have no plural in Slurm's messages
_ADD = (
    "No valid entity in add command\n"
    'Input line must include "Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"'
)
_MODIFY = (
    "No valid entity in modify command\n"
    'Input line must include "Account", "Cluster", "Federation", "Job", "QOS", "Resource" or "User"'
)
_DELETE = (
    "No valid entity in delete command\n"
    'Input line must include "Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"'
)
VERSION = "22.05.8"


def run(words: Sequence[str]) -> int:
    typed_options, arguments = _READER.read(words)
    said = dict(typed_options)
    if not arguments:
        return interactive("sacctmgr", run)
    verb = typed(arguments[0].lower(), _VERBS)
    verb = _SAME.get(verb, verb)
    try:
        return _carry_out(verb, arguments, said)
    except RequestRefused as error:  # the API server may refuse a change that passed the checks of the command
        if error.code != 403:
            raise
        kind = entity(verb, arguments[1]) if len(arguments) > 1 and verb in _CHANGES else ""
        problem = f" Problem adding {_NAMES.get(kind, f'{kind}s')}: Access/permission denied"
        raise Usage(f"{problem if verb == 'add' else DENIED}\n {error.message}") from None


def _carry_out(verb: str, arguments: Sequence[str], said: Mapping[str, str | None]) -> int:
    match verb:
        case "exit" | "quiet" | "verbose" | "readonly" | "associations" | "reconfigure":
            return 0
        case "version":
            print(f"slurm-wlm {VERSION}")
            return 0
        case "list":
            return show(arguments[1:], said)
        case "add" | "modify" | "delete" if "readonly" in said:
            raise Usage("Can't run this command in readonly mode.")
        case "add" | "modify" | "delete":
            api = ApiClient.open()
            return _CHANGES[verb](SiteChange(api, site.load(api), "immediate" in said), arguments[1:])
        case "dump" | "load":
            from phalanx.slurm.commands.accounting.entities.accounts import dump, load

            return (dump if verb == "dump" else load)(arguments[1:])
        case "shutdown":
            raise Usage(" Problem shutting down server: Access/permission denied")
        case "clear" if len(arguments) > 1 and not is_administrator(site.load(ApiClient.open())):
            return 1
        case "archive" if arguments[1:] == ["dump"]:
            here = site.load(api := ApiClient.open())
            if not SiteChange(api, here, "immediate" in said).agreed(ARCHIVE):
                return 0
            if is_administrator(here):
                raise _unsupported("archive", ["dump"])
            denied = "sacctmgr: error: Your user doesn't have privilege to perform this action"
            raise Usage(f"{denied}\n Problem dumping archive: Access/permission denied")
        case "archive" | "clear" | "help":
            raise Usage(f"sacctmgr: error: {verb} is not supported by Phalanx (docs/guide/slurm.md)")
    raise Usage(f"invalid keyword: {arguments[0]}")


def _unsupported(verb: str, words: Sequence[str]) -> Usage:
    return Usage(
        f"sacctmgr: error: {verb} {words[0] if words else ''} is not supported by Phalanx (docs/guide/slurm.md)"
    )


# --- add ------------------------------------------------------------------------------------------------------------


def _add(asked: SiteChange, words: Sequence[str]) -> int:
    kind = entity("add", words[0]) if words else ""
    said, bare = pairs(words[1:])
    match kind:
        case "account":
            return accounts.add(asked, said, bare)
        case "user":
            return users.add(asked, said, bare)
        case "qos":
            return qos.add(asked, said, bare)
        case "coordinator":
            return users.coordinate(asked, said, remove=False)
        case "cluster" if bare:
            print(f" Adding Cluster(s)\n  Name           = {bare[0]}")
            if asked.agreed():
                asked.here.cluster = bare[0]
                site.store(asked.api, asked.here)
            return 0
        case "cluster":
            raise Usage(" Need name of cluster to add.")
        case "":
            raise Usage(_ADD)
    raise _unsupported("add", words)


# --- modify ---------------------------------------------------------------------------------------------------------


def _modify(asked: SiteChange, words: Sequence[str]) -> int:
    kind = entity("modify", words[0]) if words else ""
    if not kind:
        raise Usage(_MODIFY)
    if kind not in ("account", "user", "qos"):
        raise _unsupported("modify", words)
    at = next((at for at, word in enumerate(words) if word.lower() == "set"), len(words))
    where = list(words[1:at])
    rest = list(words[at + 1 :])
    behind = next((at for at, word in enumerate(rest) if word.lower() == "where"), len(rest))
    change, _ = pairs(rest[:behind])
    which, bare = pairs([*where, *rest[behind:]])
    if not change:
        raise Usage(" You didn't give me anything to set")
    if not which and not bare and not asked.agreed(f"You didn't set any conditions with 'WHERE'.\n{SURE}"):
        return 0
    if kind == "qos":
        return qos.modify(asked, change, names_of(which, bare, "name", "names"))
    if kind == "user":
        return users.modify(asked, change, which, names_of(which, bare, "name", "names", "user", "users"))
    return accounts.modify(asked, change, names_of(which, bare, "name", "names", "account", "accounts"))


# --- delete ---------------------------------------------------------------------------------------------------------


def _delete(asked: SiteChange, words: Sequence[str]) -> int:
    kind = entity("delete", words[0]) if words else ""
    if not kind:
        raise Usage(_DELETE)
    said, bare = pairs(words[1:])
    if not said and not bare:
        what = "You need to specify a user list or account list here."
        raise Usage(f" {what}" if kind == "coordinator" else " No conditions given to remove, not executing.")
    names = names_of(said, bare, "name", "names", kind, f"{kind}s")
    require_any(asked.here)
    match kind:
        case "coordinator":
            return users.coordinate(asked, said, remove=True)
        case "user" if keys := names_of(said, [], "wckey", "wckeys"):
            return wckeys.delete(asked, names, keys)
        case "user":
            return users.delete(asked, names, names_of(said, [], "account", "accounts"))
        case "account":
            return accounts.delete(asked, names)
        case "qos":
            return qos.delete(asked, names)
    raise _unsupported("delete", words)


_CHANGES = {"add": _add, "modify": _modify, "delete": _delete}
