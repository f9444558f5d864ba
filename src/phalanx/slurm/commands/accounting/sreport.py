"""sreport: report the usage of the cluster by accounts and users in a period, from the ledger (the accounting
database).

    sreport [OPTIONS] cluster Utilization | AccountUtilizationByUser | UserUtilizationByAccount |
        UserUtilizationByWCKey | WCKeyUtilizationByUser [NAME=VALUE ...]
    sreport [OPTIONS] job SizesByAccount [NAME=VALUE ...]
    sreport [OPTIONS] user TopUsage [NAME=VALUE ...]
    sreport [OPTIONS] reservation Utilization [NAME=VALUE ...]

As in Slurm, a period begins and ends with full hours. Usage is the held amount of a TRES times the time for which jobs
held it, in minutes; `-t` selects another unit. The output has the form of sreport(1) 22.05; tests/slurm/golden has
examples.
"""

from __future__ import annotations

import pwd
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.accounts.used import UsedResources, held, waited_cpu_s
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.ledger import LedgerReader, Part
from phalanx.slurm.commands.accounting.entities.words import typed
from phalanx.slurm.commands.accounting.sreport_asked import (
    TRES,
    AccountingColumn,
    ReportConditions,
    asked,
    chosen_columns,
    show,
    tres_of,
)
from phalanx.slurm.control.reservations import reservations
from phalanx.slurm.jobs.nodes import nodes
from phalanx.slurm.notation import times
from phalanx.slurm.options import OptionReader, Usage, declare, interactive, say

OPTIONS = declare(
    "all_clusters,a cluster,M= federation help,h local noheader,n parsable,p parsable2,P quiet,Q t,t= tres,T= usage "
    "verbose,v version,V"
)
_READER = OptionReader("sreport", OPTIONS)
_RULE = "-" * 80
_SIZES = (50, 250, 500, 1000)
_HELP = "sreport [OPTION] cluster|job|user REPORT [NAME=VALUE ...]\n  cluster - {}\n  job - {}\n  user - TopUsage"


def run(words: Sequence[str]) -> int:
    named, arguments = _READER.read(words)
    options = dict(named)
    if "help" in options or "usage" in options:
        print(_HELP.format(_OF["cluster"][1], _OF["job"][1]))
        return 0
    if not arguments:
        return interactive("sreport", run)
    tres_of(options)
    match arguments[0].lower():
        case "exit" | "quit":
            return 0
        case "version":
            print("slurm-wlm 22.05.8")
            return 0
        case "help":
            print("sreport [<OPTION>] [<COMMAND>]")
            return 0
    kind = typed(arguments[0].lower(), "cl[uster] j[ob] re[servation] u[ser]")
    if not kind:
        raise Usage(f"invalid keyword: {arguments[0]}")
    if len(arguments) < 2:
        raise Usage("" if "quiet" in options else f"too few arguments for keyword:{arguments[0]}")
    reports, valid = _OF[kind]
    name = typed(arguments[1].lower(), " ".join(reports))
    if not name:
        raise Usage(f"Not valid report {arguments[1]}\nValid {kind} reports are, {valid}")
    conditions, report = next(one for spelled, one in reports.items() if spelled.replace("[", "").rstrip("]") == name)
    what = asked(conditions, arguments[2:], options)
    return int(report(what) or what.wrong)


def _title(asked: ReportConditions, name: str, what: str, *, length: bool = True) -> None:
    if "noheader" in asked.options:
        return
    period = asked.period
    span = f"{times.moment(period.since_s)} - {times.moment(period.until_s - 1)}"
    seconds = f" ({int(period.until_s - period.since_s)} secs)" if length else ""
    print(f"{_RULE}\n{name} {span}{seconds}\n{what}\n{_RULE}")


def _in_units(asked: ReportConditions) -> str:
    heading, size, _ = asked.unit
    what = "TRES" if asked.many else "CPU"
    return f"Usage reported in {what} {heading}" if size else f"Usage reported in {heading}"


# --- columns --------------------------------------------------------------------------------------------------------

_NAMES = {
    "cluster": AccountingColumn("Cluster", 9), "account": AccountingColumn("Account", 15),
    "login": AccountingColumn("Login", 9),
    "proper": AccountingColumn("Proper Name", 15), "tresname": AccountingColumn("TRES Name", 14),
    "wckey": AccountingColumn("WCKey", 15),
}  # fmt: skip
_AMOUNTS = {
    "used": "Used", "energy": "Energy", "allocated": "Allocated", "down": "Down", "planneddown": "PLND Down",
    "idle": "Idle", "planned": "Planned", "reported": "Reported",
}  # fmt: skip


def _print(asked: ReportConditions, default: str, rows: Sequence[Mapping[str, str]]) -> None:
    """Print a table of usage. `default`: the fields that are shown without the option `format`. With -T the table has
    the field TRES Name instead of Energy."""
    least = 17 if asked.unit[1] and asked.unit[2] else 8
    known = dict(_NAMES)
    for name, heading in _AMOUNTS.items():  # these columns are widened for the longest number
        known[name] = AccountingColumn(heading, max([least, *(len(row.get(name, "")) for row in rows)]))
    if "tree" in asked.flags:
        known["account"] = AccountingColumn("Account", -20)
    _shown(asked, asked.said.get("format"), default, known, rows)


def _shown(
    asked: ReportConditions,
    form: str | None,
    default: str,
    known: Mapping[str, AccountingColumn],
    rows: Sequence[Mapping[str, str]],
) -> None:
    """Print a table. `form`: the value of the option `format`; None for the fields `default`. `known`: name of a field
    -> its column. A field that does not exist is reported and left out."""
    columns = []
    for word in (default if form is None else form).split(","):
        try:
            columns += chosen_columns(word, known)
        except Usage as error:
            say(error.text)
            asked.wrong = True
    show(columns, rows, asked.options)


# --- cluster --------------------------------------------------------------------------------------------------------


def _utilization(asked: ReportConditions) -> None:
    """Print the report `cluster Utilization`. The column Reported is the sum over all present nodes: the node's amount
    times the part of the period in which the node existed. The column Planned is the idle capacity that jobs waited
    for."""
    period = asked.period
    # TRES -> a tuple for each node: its amount, the begin of its existence in the period, and the time when it went
    # down
    sizes: dict[str, list[tuple[float, float, float]]] = {name: [] for name in TRES}
    for node in nodes(ApiClient.open()):
        since_s = max(node.made_s, period.since_s)
        down_s = node.down_s if node.down_s is not None else period.last_s
        each = {"cpu": node.cpus, "billing": node.cpus, "mem": node.memory_mib, "gres/gpu": node.gpus}
        for name in TRES:
            sizes[name].append((each[name], since_s, max(down_s, since_s)))
    with LedgerReader.open(Part(since_s=period.since_s)) as ledger:
        runs = held(ledger, period)
        waited = waited_cpu_s(ledger, period)
    rows = []
    for name in asked.tres:
        reported = sum(amount * max(0.0, period.last_s - since_s) for amount, since_s, _ in sizes[name])
        most = sum(amount for amount, _, _ in sizes[name]) * (period.until_s - period.since_s)
        down = sum(amount * max(0.0, period.last_s - down_s) for amount, _, down_s in sizes[name])
        allocated = min(sum(run.tres.get(name, 0.0) * run.seconds for run in runs), reported)
        down = min(down, reported - allocated)
        planned = min(waited if name == "cpu" else 0.0, reported - allocated - down)
        idle = reported - allocated - down - planned
        amounts = {"allocated": allocated, "down": down, "planneddown": 0.0, "idle": idle, "planned": planned}
        row = {one: asked.amount(seconds, reported) for one, seconds in amounts.items()}
        row["reported"] = asked.amount(reported, most)
        if reported:
            rows.append({"cluster": asked.cluster, "tresname": name, **row})
    _title(asked, "Cluster Utilization", _in_units(asked), length=False)
    of_tres = "tresname," if asked.many else ""
    _print(asked, f"cluster,{of_tres}allocated,down,planneddown,idle,planned,reported", rows)


@dataclass(slots=True)
class _Sum:
    """A sum of usage: name of the TRES -> TRES seconds."""

    of: dict[str, float] = field(default_factory=dict)

    def add(self, run: UsedResources) -> None:
        for name, amount in run.tres.items():
            self.of[name] = self.of.get(name, 0.0) + amount * run.seconds


def _by_account(asked: ReportConditions) -> None:
    accounts: dict[str, _Sum] = {}
    users: dict[tuple[str, str], _Sum] = {}
    for run in _held(asked):
        path = _path(run.account)
        for depth in range(1, len(path) + 1):
            accounts.setdefault("/".join(path[:depth]), _Sum()).add(run)
        users.setdefault(("/".join(path), run.user), _Sum()).add(run)
    wanted, of_users, rows = asked.names("accounts"), asked.names("users"), []
    for account in sorted(accounts, key=lambda path: path.split("/")):
        path = account.split("/")
        if wanted and not wanted & {*path}:
            continue
        indent = " " * (len(path) - 1) if "tree" in asked.flags else ""
        if not of_users:
            rows += _rows(asked, {"account": indent + path[-1]}, accounts[account])
        indent += " " if "tree" in asked.flags else ""
        for (_, user), one in sorted(each for each in users.items() if each[0][0] == account and each[0][1]):
            rows += _rows(asked, {"account": indent + path[-1], **_who(user)}, one)
    _title(asked, "Cluster/Account/User Utilization", _in_units(asked))
    _print(asked, f"cluster,account,login,proper,{_last(asked)}", rows)


def _by_user(asked: ReportConditions) -> None:
    sums = _by_user_and_account(asked)
    _title(asked, "Cluster/User/Account Utilization", _in_units(asked))
    rows = [row for (user, account), one in _most(sums)
            for row in _rows(asked, {**_who(user), "account": account}, one)]  # fmt: skip
    _print(asked, f"cluster,login,proper,account,{_last(asked)}", rows)


def _by_user_and_account(asked: ReportConditions) -> dict[tuple[str, str], _Sum]:
    found: dict[tuple[str, str], _Sum] = {}
    wanted = asked.names("accounts")
    for run in _held(asked):
        account = _path(run.account)[-1]
        if not wanted or account in wanted:
            found.setdefault((run.user, account), _Sum()).add(run)
    return found


def _most(sums: Mapping[tuple[str, str], _Sum]) -> list[tuple[tuple[str, str], _Sum]]:
    """Return the sums, sorted by the usage of CPUs, the largest first."""
    return sorted(sums.items(), key=lambda each: (-each[1].of.get("cpu", 0.0), each[0]))


def _held(asked: ReportConditions) -> list[UsedResources]:
    with LedgerReader.open(Part(since_s=asked.period.since_s)) as ledger:
        return held(ledger, asked.period, asked.names("users"))


def _path(account: str) -> list[str]:
    """Return the names of the accounts from the root to the account. `account`: the path of the queue. The path does
    not begin with a root, because only Slurm's tree of accounts has a root."""
    return ["root", *(part for part in account.split("/") if part)]


def _who(user: str) -> dict[str, str]:
    try:
        return {"login": user, "proper": pwd.getpwnam(user).pw_gecos.partition(",")[0]}
    except KeyError:
        return {"login": user, "proper": ""}


def _last(asked: ReportConditions) -> str:
    return "tresname,used" if asked.many else "used,energy"


def _rows(asked: ReportConditions, row: Mapping[str, str], one: _Sum) -> list[dict[str, str]]:
    """Return a copy of the row for each TRES of the report, with the usage of this TRES in `one`."""
    found = []
    for name in asked.tres:
        used = asked.amount(one.of.get(name, 0.0), _capacity(asked, name) if asked.unit[2] else 0.0)
        energy = asked.amount(0.0, 1.0)
        found.append({"cluster": asked.cluster, **row, "tresname": name, "used": used, "energy": energy})
    return found


def _capacity(asked: ReportConditions, tres: str) -> float:
    """Return the TRES seconds that the present nodes offered in the period. A node counts from its creation on."""
    period, total = asked.period, 0.0
    for node in nodes(ApiClient.open()):
        each = {"cpu": node.cpus, "billing": node.cpus, "mem": node.memory_mib, "gres/gpu": node.gpus}
        total += each[tres] * max(0.0, period.last_s - max(node.made_s, period.since_s))
    return total


# --- jobs and users -------------------------------------------------------------------------------------------------


def _sizes(asked: ReportConditions) -> None:
    runs = [run for run in _held(asked) if run.cpus]
    wanted = asked.names("accounts")
    limits = _grouping(asked, runs)
    by: dict[str, dict[int, float]] = {}
    for run in runs:
        path = _path(run.account)
        if wanted and not wanted & {*path}:
            continue
        name = path[-1] if "flatview" in asked.flags else _group_of(path, asked, wanted)
        column = max((at for at, least in enumerate(limits) if run.cpus >= least), default=0)
        amount = run.count if "printjobcount" in asked.flags else run.seconds * run.cpus
        by.setdefault(name, {})[column] = by.setdefault(name, {}).get(column, 0.0) + amount
    total = sum(sum(row.values()) for row in by.values())
    single = asked.said.get("grouping", "").lower() == "individual"
    headings = [f"{one} CPUs" for one in limits] if single else _spans(limits)
    known = {
        "cluster": AccountingColumn("Cluster", 9), "account": AccountingColumn("Account", 9),
        **{f"size{at}": AccountingColumn(text, 13) for at, text in enumerate(headings)},
        "percent": AccountingColumn("% of cluster", 12),
    }  # fmt: skip
    heading, size, _ = asked.unit
    unit = 1 if "printjobcount" in asked.flags else size or 1
    rows = []
    for name in sorted(by):
        row = {f"size{at}": f"{by[name].get(at, 0.0) / unit:.0f}" for at in range(len(limits))}
        share = 100 * sum(by[name].values()) / total if total else 0.0
        rows.append({"cluster": asked.cluster, "account": name, **row, "percent": f"{share:.2f}%"})
    what = f"Time reported in {heading}" if "printjobcount" not in asked.flags else "Units are in number of jobs ran"
    _title(asked, "Job Sizes", what)
    show(chosen_columns(",".join(known), known), rows, asked.options)


def _group_of(path: Sequence[str], asked: ReportConditions, wanted: frozenset[str]) -> str:
    """Return the account in whose row a job counts. `path`: the accounts from the root to the job's account. The job
    counts in the row of the lowest account on this path that is in `wanted`, or of the root if there is none. With
    AcctAsParent, it counts in the row of the next account below on the path."""
    at = max((depth for depth, name in enumerate(path) if name in (wanted or {"root"})), default=0)
    return path[min(at + 1, len(path) - 1)] if "acctasparent" in asked.flags else path[at]


def _grouping(asked: ReportConditions, runs: Sequence[UsedResources]) -> list[int]:
    """Return the smallest job size of each column, in CPUs."""
    text = asked.said.get("grouping", "").lower()
    if text == "individual":
        return sorted({run.cpus for run in runs})
    try:
        limits = sorted({int(one) for one in text.split(",") if one}) or list(_SIZES)
    except ValueError:
        raise Usage(f" Unknown condition: grouping={text}") from None
    return [0, *limits]


def _spans(limits: Sequence[int]) -> list[str]:
    spans = [f"{low}-{high - 1} CPUs" for low, high in pairwise(limits)]
    return [*spans, f">= {limits[-1]} CPUs"]


def _by_word(asked: ReportConditions, word: str) -> dict[tuple[str, str], _Sum]:
    """Return the usage by (value of the field, user). `word`: a field of the job's request, such as wckey. Jobs that do
    not have this field do not count."""
    with LedgerReader.open(Part(since_s=asked.period.since_s)) as ledger:
        runs = held(ledger, asked.period, asked.names("users"), word)
    found: dict[tuple[str, str], _Sum] = {}
    for run in runs:
        if run.account:
            of = found.setdefault((run.account, run.user), _Sum()).of
            for name, amount in run.tres.items():
                of[name] = of.get(name, 0.0) + amount * run.seconds
    return found


def _wckey_by_user(asked: ReportConditions) -> None:
    _require_operator("wckey_by_user")
    _title(asked, "Cluster/WCKey/User Utilization", _in_units(asked))
    sums = _by_word(asked, "wckey")
    rows = []
    for key in sorted({key for key, _ in sums}):
        own = {user: one for (other, user), one in sums.items() if other == key}
        total = _Sum()
        for one in own.values():
            for name, amount in one.of.items():
                total.of[name] = total.of.get(name, 0.0) + amount
        rows += _rows(asked, {"wckey": key, "login": "", "proper": ""}, total)
        for user in sorted(own):
            rows += _rows(asked, {"wckey": key, **_who(user)}, own[user])
    _print(asked, f"cluster,wckey,login,proper,{_last(asked)}".removesuffix(",energy"), rows)


def _user_by_wckey(asked: ReportConditions) -> None:
    _require_operator("user_by_wckey")
    _title(asked, "Cluster/User/WCKey Utilization", _in_units(asked))
    sums = _by_word(asked, "wckey")
    rows = [
        row for key, user in sorted(sums, key=lambda pair: (pair[1], pair[0]))
        for row in _rows(asked, {**_who(user), "wckey": key}, sums[key, user])
    ]  # fmt: skip
    _print(asked, f"cluster,login,proper,wckey,{_last(asked)}".removesuffix(",energy"), rows)


def _reserved(asked: ReportConditions) -> None:
    """Print the report `reservation Utilization`: for each present reservation, the part of the reserved capacity that
    jobs of the reservation used in the period."""
    period = asked.period
    _title(asked, "Reservation Utilization", _in_units(asked).replace(" CPU ", " TRES "), length=False)
    api = ApiClient.open()
    sizes = {node.name: node for node in nodes(api)}
    sums = _by_word(asked, "reservation")
    rows = []
    for one in reservations(api):
        lasts_s = min(one.end_s, period.last_s) - max(one.start_s, period.since_s)
        if lasts_s <= 0:
            continue
        own = [sizes[name] for name in one.nodes if name in sizes]
        kept = {"cpu": sum(node.cpus for node in own), "mem": sum(node.memory_mib for node in own),
                "gres/gpu": sum(node.gpus for node in own)}  # fmt: skip
        kept["billing"] = kept["cpu"]
        for name in asked.tres:
            whole = kept[name] * lasts_s
            used = sum(each.of.get(name, 0.0) for (other, _), each in sums.items() if other == one.name)
            rows.append({
                "cluster": asked.cluster, "name": one.name, "start": times.moment(one.start_s),
                "end": times.moment(one.end_s), "tresname": name, "allocated": asked.amount(used, whole),
                "idle": asked.amount(max(0.0, whole - used), whole),
            })  # fmt: skip
    known = {
        **_NAMES, "name": AccountingColumn("Name", 9),
        "start": AccountingColumn("Start", 19), "end": AccountingColumn("End", 19),
        "allocated": AccountingColumn("Allocated", 20), "idle": AccountingColumn("Idle", 20),
    }  # fmt: skip
    default = "cluster,name,start,end,tresname,allocated,idle"
    _shown(asked, asked.said.get("format"), default, known, rows)


def _top(asked: ReportConditions) -> None:
    text = asked.said.get("topcount", "10")
    if not text.isdecimal():
        say(f"sreport: error: Invalid value for TopCount ({text})")
        text, asked.wrong = "10", True
    sums = _by_user_and_account(asked)
    if "group" in asked.flags:
        together: dict[str, _Sum] = {}
        accounts: dict[str, list[str]] = {}
        for (user, account), one in sorted(sums.items()):
            accounts.setdefault(user, []).append(account)
            for name, amount in one.of.items():
                of = together.setdefault(user, _Sum()).of
                of[name] = of.get(name, 0.0) + amount
        sums = {(user, ", ".join(accounts[user])): one for user, one in together.items()}
    _title(asked, f"Top {text} Users", _in_units(asked))
    rows = [row for (user, account), one in _most(sums)[: int(text)]
            for row in _rows(asked, {**_who(user), "account": account}, one)]  # fmt: skip
    _print(asked, f"cluster,login,proper,account,{_last(asked)}", rows)


def _of_keys(asked: ReportConditions) -> None:
    """Print the report `job SizesByWcKey`. Only operators may see this report."""
    _sizes_by_key(asked, AccountingColumn("Wckey", 9), "Job Sizes by Wckey")


def _of_accounts_and_keys(asked: ReportConditions) -> None:
    _sizes_by_key(asked, AccountingColumn("Account", -20), "Job Sizes")


def _sizes_by_key(asked: ReportConditions, column: AccountingColumn, title: str) -> None:
    """Print an empty table. Raises Usage if the site has WCKeys, because Phalanx does not compute job sizes by
    WCKey."""
    here = site.load(ApiClient.open())
    if here.wckeys:
        raise Usage(f"sreport: error: {title} by WCKey is not supported by Phalanx (docs/guide/slurm.md)")
    known = {
        "cluster": AccountingColumn("Cluster", 9), "key": column,
        **{f"size{at}": AccountingColumn(text, 13) for at, text in enumerate(_spans(_grouping(asked, [])))},
        "percent": AccountingColumn("% of cluster", 12),
    }  # fmt: skip
    if not is_administrator(here):
        say(_UNPRIVILEGED)
    _title(asked, title, f"Time reported in {asked.unit[0]}")
    show(chosen_columns(",".join(known), known), [], asked.options)


_UNPRIVILEGED = "sreport: error: Your user doesn't have privilege to perform this action"


def _require_operator(report: str) -> None:
    """Raise Usage if the caller may not see reports by WCKey."""
    if not is_administrator(site.load(ApiClient.open())):
        raise Usage(f"{_UNPRIVILEGED}\nslurmdb_report_cluster_{report}: Problem with get query.")


Report = Callable[[ReportConditions], int | None]
# kind of report -> (name of the report -> (the key of its conditions in `sreport_asked`, the function), the list of
# valid reports in Slurm's message). Users may leave out the letters in brackets.
_OF: dict[str, tuple[dict[str, tuple[str, Report]], str]] = {
    "cluster": (
        {
            "a[ccountutilizationbyuser]": ("users", _by_account),
            "userutilizationbya[ccount]": ("users", _by_user),
            "userutilizationbyw[ckey]": ("wckeys", _user_by_wckey),
            "ut[ilization]": ("cluster", _utilization),
            "w[ckeyutilizationbyuser]": ("wckeys", _wckey_by_user),
        },
        '"AccountUtilizationByUser", "UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", and '
        '"WCKeyUtilizationByUser"',
    ),
    "job": (
        {
            "sizesbyaccounta[ndwckey]": ("job", _of_accounts_and_keys),
            "sizesbyw[ckey]": ("job", _of_keys),
            "s[izesbyaccount]": ("job", _sizes),
        },
        '"SizesByAccount, SizesByAccountAndWcKey, and  SizesByWckey"',
    ),
    "user": ({"t[opusage]": ("user", _top)}, '"Top"'),
    "reservation": ({"u[tilization]": ("reservation", _reserved)}, '"Utilization"'),
}
