"""Run `sacctmgr list`: select the rows and the columns of an entity, and print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.slurm.accounts import tables
from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.commands.accounting.entities.columns import chosen, listed
from phalanx.slurm.commands.accounting.entities.words import DENIED, SURE, SiteChange, entity, names_of, typed
from phalanx.slurm.notation import times
from phalanx.slurm.options import Usage

_LIST = (
    "No valid entity in list command\n"
    'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"'
)
_FEDERATION = (
    "Federation    Cluster ID             Features     FedState \n"
    "---------- ---------- -- -------------------- ------------ "
)
_FEDERATION_NAMES = "Federation|Cluster|ID|Features|FedState"
# entity that only operators may list -> Slurm's refusal for other users
_OPERATORS = {
    "stats": "sacctmgr: accounting_storage/slurmdbd: acct_storage_p_get_stats: RC:2002 Your user doesn't have "
    "privilege to perform this action",
    "wckey": DENIED,
    "problem": "sacctmgr: error: Access/permission denied\n Error with request: Access/permission denied",
    "runawayjob": "sacctmgr: error: You must have an AdminLevel>=Operator to fix runaway jobs",
}
_OF_ASSOCIATION = (
    "Share,Priority,{}MaxJobs,MaxNodes,MaxCPUs,MaxS,MaxW,MaxCPUM,QOS,DefaultQ",
    "GrpJ,GrpN,GrpCPUs,GrpM,GrpS,GrpW,GrpCPUM,",
)
# entity -> the columns of its list if there is no `format=`
_FORMS = {
    "account": "Acc,Des,O",
    "association": "Cl,Acc,User,Part",
    "cluster": "Cl,Controlh,Controlp,RPC,S,GrpJ,GrpTRES,GrpS,MaxJ,MaxTRES,MaxS,MaxW,QOS,DefaultQ",
    "event": "Cl,NodeN%-15,Star,En,St,R,U",
    "federation": "",
    "problem": "Cl,Acc,User,Problem",
    "qos": "Name,Pri,Gra,Preempt,PreemptE,PreemptM,Flags%40,UsageT,UsageF,GrpTRES,GrpTRESM,GrpTRESR,GrpJ,GrpS,GrpW,"
    "MaxTRES,MaxTRESPerN,MaxTRESM,MaxW,MaxTRESPU,MaxJobsPU,MaxSubmitPU,MaxTRESPA,MaxJobsPA,MaxSubmitPA,MinTRES",
    "reservation": "Cl,Name%15,TRES%30,Star,En,Un",
    "resource": "Name,Server,Type,Count,Allocated,ServerType",
    "transaction": "Time,Action,Actor,Where,Info",
    "tres": "Type,Name%15,ID",
    "user": "User,DefaultA,Ad",
    "wckey": "WCKey,Cluster,User",
}
_LIMITS_OF_ASSOCIATION = (
    "S,Pri,GrpJ,GrpTRES,GrpS,GrpW,GrpTRESM,MaxJ,MaxTRES,MaxTRESPerN,MaxS,MaxW,MaxTRESM,QOS,DefaultQ,GrpTRESR"
)
# entity -> its conditions; users may leave out the letters in brackets
_CONDITIONS = {
    "account": "a[ccounts] ac[ct] c[lusters] d[escriptions] fo[rmat] n[ames] o[rganizations] par[ent] q[oslevel] "
    "u[sers]",
    "association": "ac[counts] ac[ct] c[lusters] f[ormat] i[ds] o[nlydefaults] par[ent] part[itions] q[oslevel] "
    "u[sers]",
    "qos": "d[escriptions] f[ormat] i[ds] n[ames] preemptm[ode]",
    "tres": "f[ormat] i[ds] n[ames] t[ype]",
    "user": "ac[counts] ad[minlevel] c[lusters] defaulta[ccount] defaultq[os] defaultw[ckey] f[ormat] n[ames] "
    "par[titions] q[oslevel] u[sers]",
}
_ANY = "a[ccounts] c[lusters] e[nd] f[ormat] i[ds] n[ames] no[des] r[easons] s[tart] u[sers]"
_FLAGS = (
    "t[ree] w[ithassoc] withc[oordinators] withd[eleted] withr[awqosid] withs[ubaccounts] wo[pinfo] wol[imits] "
    "wopl[imits] o[nlydefaults] all_c[lusters] all_t[ime]"
)
_WITH_ASSOCIATIONS = {
    "account": {"clusters", "parent", "qoslevel", "users"},
    "user": {"accounts", "partitions", "qoslevel", "defaultqos"},
}
_HINT = "\n Use keyword 'set' to modify "
_SLURM_OF_RPC = "9728"  # the protocol version of Slurm 22.05; the output of this command is that of Slurm 22.05


def show(words: Sequence[str], said: Mapping[str, str | None]) -> int:
    """Run `list` and return the exit code. `words`: the entity and its conditions. `said`: the options. Raises
    Usage."""
    kind = entity("list", words[0]) if words else ""
    if not kind:
        raise Usage(_LIST)
    here = site.load(ApiClient.open())
    if kind in _OPERATORS and not is_administrator(here):
        raise Usage(_OPERATORS[kind])
    match kind:
        case "federation":
            if "noheader" in said:
                return 0
            ends = {"parsable": "|\n", "parsable2": "\n"}
            style = next((name for name in said if name in ends), "")
            print(_FEDERATION_NAMES if style else _FEDERATION, end=ends.get(style, "\n"))
            return 0
        case "runawayjob":
            print(f"Runaway Jobs: No runaway jobs found on cluster {here.cluster}")
            return 0
        case "stats" | "configuration":
            raise Usage(f"sacctmgr: error: list {words[0]} is not supported by Phalanx (docs/guide/slurm.md)")
    asked, bare, flags = _read(kind, words[1:])
    if "associations" in said:
        flags.add("withassoc")
    form = asked.get("format")
    columns = chosen(form if form is not None else _form(kind, flags))
    only = {name for name in asked if name in _WITH_ASSOCIATIONS.get(kind, ())}
    warning = "You requested options that are only valid when querying with the withassoc option."
    change = SiteChange(ApiClient.open(), here, "immediate" in said)
    if only and "withassoc" not in flags and not change.agreed(f"{warning}\n{SURE}"):
        return 0
    rows = _rows(kind, here, asked, bare, flags)
    if kind == "association":
        rows = _ordered(here, rows, flags)
    if kind == "association" and "tree" in flags:
        columns = [one.left(20) if one.field == "account" else one for one in columns]
    listed(columns, rows, said)
    return 0


def _ordered(here: Site, rows: Sequence[tables.Row], flags: set[str]) -> list[tables.Row]:
    """Return the rows of associations with the columns id, lft and rgt, in the order in which Slurm lists them."""
    rows = [tables.numbered(here, row) for row in rows]
    if "wopinfo" in flags:  # the rows have no parents with this flag, so they cannot be sorted as a tree
        return sorted(tables.by_creation(here, rows), key=lambda row: "user" not in row)
    blanks = " " if "tree" in flags else ""
    return [{**row, "account": blanks * depth + row["account"]} for depth, row in tables.in_tree(here, rows)]


def _read(kind: str, words: Sequence[str]) -> tuple[dict[str, str], list[str], set[str]]:
    """Return the conditions (whole name -> value), the words that are neither conditions nor flags, and the flags.
    Raises Usage for an unknown condition."""
    asked: dict[str, str] = {}
    bare: list[str] = []
    flags: set[str] = set()
    for word in words:
        name, equals, value = word.partition("=")
        if word.lower() in ("where", "set"):
            continue
        if not equals and name and (flag := typed(name.lower(), _FLAGS)):
            flags.add(flag)
        elif not equals:
            bare += [one for one in word.split(",") if one] or [""]
        elif whole := typed(name.lower(), _CONDITIONS.get(kind, _ANY)):
            asked["accounts" if whole == "acct" else whole] = value
        else:
            hint = "" if kind in ("association", "event", "wckey") else _HINT + "value"
            raise Usage(f" Unknown condition: {word}{hint if kind != 'qos' else _HINT + 'SLURM_PRINT_VALUE'}")
    if bare and kind == "association":
        raise Usage(f"sacctmgr: error: Invalid value for AssocId ({bare[0]})")
    return asked, bare, flags


def _form(kind: str, flags: set[str]) -> str:
    form = _FORMS[kind]
    if kind == "association":
        return form if flags & {"wolimits", "woplimits"} else f"{form},{_LIMITS_OF_ASSOCIATION}"
    if kind in ("account", "user") and "withassoc" in flags:
        limits, groups = _OF_ASSOCIATION
        form += ",Cl,ParentN,U," if kind == "account" else ",Cl,Acc,Part,"
        form += limits.format(groups if kind == "account" else "")
    return f"{form},Coord" if "withcoordinators" in flags else form


def _rows(kind: str, here: Site, asked: dict[str, str], bare: list[str], flags: set[str]) -> Sequence[tables.Row]:
    each = "withassoc" in flags
    names, users = names_of(asked, bare, "names"), [one.lower() for one in names_of(asked, [], "users")]
    accounts = [one.lower() for one in names_of(asked, [], "accounts")]
    match kind:
        case "account":
            return tables.accounts(here, [*names, *accounts], each=each)
        case "user":
            rows = tables.users(here, [*names, *users], each=each)
            level, default = asked.get("adminlevel", "").lower(), asked.get("defaultaccount")
            known = level[:2] in ("no", "op", "ad") and len(level) > 1
            rows = [row for row in rows if not known or row["admin"].lower().startswith(level)]
            rows = [row for row in rows if not each or not accounts or row["account"] in accounts]
            return [row for row in rows if default is None or row["def acct"] == default.lower()]
        case "association":
            rows = tables.associations(here, accounts, users, own="wopinfo" in flags)
            if "parent" in asked:
                parents = asked["parent"].lower().split(",")
                rows = [row for row in rows if row.get("parentname", "") in parents]
            if "onlydefaults" in flags:
                rows = [row for row in rows if tables.is_default(here, row)]
            return rows if "clusters" not in asked or here.cluster in asked["clusters"].lower().split(",") else []
        case "qos":
            rows = tables.qos(here, names)
            return [row for row in rows if row["descr"] == asked.get("descriptions", row["descr"])]
        case "tres":
            kinds = names_of(asked, bare, "type")
            rows = [row for row in tables.tres() if not kinds or row["type"] in kinds]
            return [row for row in rows if "names" not in asked or row["name"] in asked["names"].split(",")]
        case "wckey":
            return tables.wckeys(here, names)
        case "event":
            from phalanx.slurm.jobs.nodes import nodes

            return tables.events(here, nodes(ApiClient.open()), names_of(asked, [], "nodes"))
        case "reservation":
            from phalanx.slurm.control.reservations import reservations

            return [
                {"cluster": here.cluster, "name": one.name, "timestart": times.moment(one.start_s),
                 "timeend": times.moment(one.end_s)}
                for one in reservations(ApiClient.open()) if not names or one.name in names
            ]  # fmt: skip
        case "cluster":
            host, port, _ = ApiClient.open().endpoint()
            return [] if names and here.cluster not in map(str.lower, names) else [
                {"cluster": here.cluster, "controlhost": host, "controlport": str(port), "rpc": _SLURM_OF_RPC,
                 "share": "1", "qos": "normal"}
            ]  # fmt: skip
    return []
