"""sshare: show shares, usage and fair-share factors in the tree of accounts.

The field TRESRunMins is the sum over running jobs of their TRES times the remaining minutes of their time limits. The
sum of a user includes the user's own jobs. The sum of an account includes all jobs in the account and in the accounts
below it. Jobs without a time limit are left out.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from phalanx.fair_tree import PARENT, AccountAssociation, Association, AssociationShare, Key, halving
from phalanx.slurm.accounts.tables import number
from phalanx.slurm.accounts.tree import tree, usage
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.notation.printed import Cell, Printed, chosen, show
from phalanx.slurm.options import OptionReader, Usage, declare, require_cluster, say

OPTIONS = declare(
    "accounts,A= all,a helpformat,e long,l partition,m cluster|clusters,M= noheader,h noheader,n format,o= parsable,p "
    "parsable2,P users,u= Users,U verbose,v version,V help usage"
)
_READER = OptionReader("sshare", OPTIONS)
DEFAULT = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
LONG = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
CLASSIC_LONG = LONG.replace("LevelFS,", "")
_TRES = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages", "gres/gpu")
_WHOLE = ("RawShares", "RawUsage")
_CALC_MIN = 5  # as with Slurm's PriorityCalcPeriod, the remaining time of running jobs changes in steps of 5 minutes


@dataclass(frozen=True, slots=True)
class ShareLine:
    """A line about an account or a user. `depth`: the depth in the tree; 0 for the root. `total`: the usage of the
    whole tree. `indent`: the blanks before the name of the account. `held`: the TRES minutes of running jobs
    (`run_minutes`)."""

    association: Association
    share: AssociationShare
    depth: int
    total: float
    indent: int = 0
    site: site.Site = field(default_factory=site.Site)
    held: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)

    @property
    def account(self) -> str:
        return self.association.key[0] or "root"

    @property
    def user(self) -> str:
        """Return the name of the user; "" in the line of an account."""
        return self.association.key[1] or ""


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words, _check)
    said: dict[str, str | None] = dict(typed)
    for each in ("format", "accounts"):  # the values of several -o, and of several -A, are joined
        if each in said:
            said[each] = ",".join(filter(None, (value for name, value in typed if name == each)))
    if "helpformat" in said:
        names = list(_FIELDS)
        for at in range(0, len(names), 4):
            print("".join(name.ljust(18) for name in names[at : at + 4]).rstrip() + " ")
        return 0
    api = ApiClient.open()
    here = site.load(api)
    users = _users(typed)
    if "verbose" in said:
        accounts = ["all"] if said.get("accounts") is None else (said["accounts"] or "").lower().split(",")
        for what, names in (("Users", users or ["all"]), ("Accounts", accounts)):
            say(f"{what} requested:\n" + "\n".join(f"\t: {name}" for name in names))
    columns = _columns(said, classic=here.classic)
    held = run_minutes(jobs(api)) if any(name == "TRESRunMins" for name, _ in columns) else {}
    root, shares = tree(here, usage(api))
    found = list(_wanted(lines(root, shares), said, users))
    top = min((line.depth for line in found), default=0)
    every = [replace(line, indent=line.depth - top, site=here, held=held) for line in found]
    if "clusters" in said:
        print(f"CLUSTER: {here.cluster}")
    rows = [[_FIELDS[name][1](line) for name, _ in columns] for line in every]
    show([column for _, column in columns], rows, said)
    return 0


def _check(typed: Sequence[tuple[str, str | None]]) -> None:
    """Raise Usage if the last option is --clusters and its value is invalid. `typed`: the options so far."""
    name, value = typed[-1]
    if name == "clusters":
        require_cluster("sshare", value or "", site.load(ApiClient.open()).cluster)


def _users(typed: Sequence[tuple[str, str | None]]) -> list[str]:
    """Return the users that --users names, or the caller without this option. An empty list means all users; it is
    returned if --all or `--users=-1` is the last of these options. Raises Usage."""
    names: list[str] = []
    everybody = [name == "all" or value == "-1" for name, value in typed if name in ("all", "users")][-1:] == [True]
    listed = ",".join(value or "" for name, value in typed if name == "users" and value != "-1")
    for one in filter(None, listed.split(",")):
        try:
            name = pwd.getpwuid(int(one)).pw_name if one.isdecimal() else one
        except (KeyError, OverflowError):
            raise Usage(f"Invalid user id: {one}") from None
        names += [name] if name not in names else []
    return [] if everybody else names or [pwd.getpwuid(os.getuid()).pw_name]


def run_minutes(found: Iterable[JobInfo]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the TRES of running jobs times the remaining minutes of their time limits: (account, user) -> TRES ->
    sum."""
    held: dict[tuple[str, str], dict[str, float]] = {}
    for job in found:
        ask = job.ask
        if job.state not in ("RUNNING", "SUSPENDED") or ask.limit_min is None:
            continue
        left_min = max(0, ask.limit_min - int(job.elapsed_s / 60) // _CALC_MIN * _CALC_MIN)
        mine = held.setdefault((ask.account, ask.user), {})
        amounts = {
            "cpu": job.cpus, "mem": job.total_mib, "node": ask.node_count, "billing": job.cpus,
            "gres/gpu": ask.total_gpus,
        }  # fmt: skip
        for name, amount in amounts.items():
            mine[name] = mine.get(name, 0.0) + amount * left_min
    return held


def _wanted(every: Iterable[ShareLine], said: Mapping[str, str | None], users: Sequence[str]) -> Iterator[ShareLine]:
    """Yield the lines that the options select. `users`: the users whose lines are shown besides the lines of accounts;
    empty for all users."""
    accounts = (said.get("accounts") or "").lower().split(",")
    for line in every:
        if said.get("accounts") is not None and line.account not in accounts:
            continue
        if line.user and users and line.user not in users:
            continue
        if "Users" in said and not line.user:
            continue
        yield line


def lines(root: AccountAssociation, shares: Mapping[Key, AssociationShare]) -> Iterator[ShareLine]:
    """Yield the lines about all accounts and users in the order of the tree."""
    for depth, each in _walk(root):
        yield ShareLine(each, shares[each.key], depth, root.usage)


def _walk(top: Association) -> Iterator[tuple[int, Association]]:
    """Yield an association and all associations below it, in the order of the tree, with their depth."""
    waiting = [(0, top)]
    while waiting:
        depth, each = waiting.pop()
        yield depth, each
        if isinstance(each, AccountAssociation):
            waiting += [(depth + 1, member) for member in reversed(each.members)]


def _columns(said: Mapping[str, str | None], *, classic: bool) -> list[tuple[str, Printed]]:
    default = (CLASSIC_LONG if classic else LONG) if "long" in said else DEFAULT
    if "partition" in said:
        default = default.replace("User,", "User,Partition,")
    form = said.get("format")
    if form is None:
        form = default
    elif not form.strip(","):
        form = "Account"  # as in Slurm, an empty name selects the first field
    words = [word for word in form.split(",") if word]
    # as in Slurm, a repeated word counts only at its last position
    last = {word.lower(): at for at, word in enumerate(words)}
    once = ",".join(word for at, word in enumerate(words) if last[word.lower()] == at)
    found = chosen(once, {name: width for name, (width, _) in _FIELDS.items()}, _unknown)
    return [(name, Printed(name, width, name in _WHOLE)) for name, width in found]


def _unknown(word: str) -> Usage:
    return Usage(f'sshare: error: Invalid field requested: "{word}"')


def _account(line: ShareLine) -> str:
    return " " * line.indent + line.account


def _shares(line: ShareLine) -> str:
    if line.depth == 0:
        return ""
    return "parent" if line.association.shares == PARENT else str(int(line.association.shares))


def _fair_share(line: ShareLine) -> Cell:
    if line.site.classic:  # as in Slurm, not the factor of jobs: it differs for `PARENT` at the first level
        return halving(line.share.usage, line.share.part)
    return (line.share.factor or 0.0) if line.user else ""


def _norm_usage(line: ShareLine) -> Cell:
    if line.depth == 0:
        return ""
    return line.association.usage / line.total if line.total else 0.0


def _level(line: ShareLine) -> Cell:
    if line.association.shares == PARENT:
        return ""
    if line.site.classic:
        return 0.0
    return "" if line.share.level is None else line.share.level


def _tres(line: ShareLine, amounts: Mapping[str, float]) -> str:
    kinds = _TRES if line.site.counts_gpus else _TRES[:-1]
    return ",".join(f"{name}={int(amounts.get(name, 0.0))}" for name in kinds)


def _run_minutes(line: ShareLine) -> str:
    mine = [line.held.get((account, user), {}) for _, ((account, user), *_) in _walk(line.association) if user]
    return _tres(line, {name: sum(each.get(name, 0.0) for each in mine) for name in _TRES})


def _used(line: ShareLine) -> str:
    """Return the past usage in TRES minutes. Only CPUs and billing have values, because the scheduler records only
    these."""
    minutes = line.association.usage / 60
    return _tres(line, {"cpu": minutes, "billing": minutes})


_FIELDS: dict[str, tuple[int, Callable[[ShareLine], Cell]]] = {
    "Account": (-20, _account),
    "Cluster": (10, lambda line: line.site.cluster),
    "EffectvUsage": (13, lambda line: line.share.usage),
    "FairShare": (10, _fair_share),
    "GrpTRESMins": (30, lambda line: ""),
    "GrpTRESRaw": (30, _used),
    "ID": (6, lambda line: number(line.site, line.account, line.user)),
    "LevelFS": (10, _level),
    "NormShares": (11, lambda line: line.share.part),
    "NormUsage": (11, _norm_usage),
    "Partition": (12, lambda line: ""),
    "RawShares": (10, _shares),
    "RawUsage": (11, lambda line: str(int(line.association.usage))),
    "TRESRunMins": (30, _run_minutes),
    "User": (10, lambda line: line.user),
}
