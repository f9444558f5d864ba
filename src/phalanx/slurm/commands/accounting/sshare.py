"""sshare: shares, usage and fair-share factors in the tree of accounts.

TRESRunMins is the sum over running jobs of their TRES times the rest of their time limits, in minutes: for a user over
his own jobs, for an account over all jobs below it. A job without a limit adds nothing.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from phalanx.slurm.accounts.fair_tree import PARENT, Node
from phalanx.slurm.accounts.tree import tree, usage
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.jobs.view import Job, jobs
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.options import Reader, Usage, declare

OPTIONS = declare(
    "accounts,A= all,a format,o= help helpformat,e long,l noheader,n parsable,p parsable2,P partition,m users,u= "
    "usage Users,U version,V"
) + declare("clusters,M= json verbose,v", refused=True)
_READER = Reader("sshare", OPTIONS)
DEFAULT = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
LONG = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS,GrpTRESMins,TRESRunMins"
CLASSIC_LONG = LONG.replace("LevelFS,", "")
_TRES = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
_FIELD = re.compile(r"([A-Za-z]+)(?:%(-?\d+))?")


@dataclass(frozen=True, slots=True)
class Line:
    """A row. `depth`: 0 for the root. `classic`: FairShare is by the classic formula. `held`: (account, user) -> TRES
    times minutes that running jobs have still to go."""

    node: Node
    account: str
    depth: int
    total: float
    indent: int = 0
    classic: bool = False
    held: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)


def run(words: Sequence[str]) -> int:
    typed, _ = _READER.read(words)
    said: dict[str, str | None] = dict(typed)
    if "helpformat" in said:
        names = sorted([*_FIELDS, "Cluster", "GrpTRESRaw", "ID"], key=str.lower)
        for at in range(0, len(names), 4):
            print("".join(name.ljust(18) for name in names[at : at + 4]).rstrip() + " ")
        return 0
    api = Api.open()
    here = site.load(api)
    root = tree(here, usage(api))
    columns = _columns(said, classic=here.classic)
    held = run_minutes(jobs(api)) if any(name == "TRESRunMins" for name, _ in columns) else {}
    found = list(_wanted(root, said))
    top = min((line.depth for line in found), default=0)
    every = [replace(line, indent=line.depth - top, classic=here.classic, held=held) for line in found]
    show(columns, every, said)
    return 0


def run_minutes(found: Iterable[Job]) -> dict[tuple[str, str], dict[str, float]]:
    """Return, by (account, user), the TRES of running jobs times the minutes that are left of their limits."""
    held: dict[tuple[str, str], dict[str, float]] = {}
    for job in found:
        ask = job.ask
        if job.state not in ("RUNNING", "SUSPENDED") or ask.limit_min is None:
            continue
        left_min = max(0.0, ask.limit_min - job.elapsed_s / 60)
        mine = held.setdefault((ask.account, ask.user), {})
        amounts = {"cpu": job.cpus, "mem": job.total_mib, "node": ask.node_count, "billing": job.cpus}
        for name, amount in amounts.items():
            mine[name] = mine.get(name, 0.0) + amount * left_min
    return held


def _wanted(root: Node, said: Mapping[str, str | None]) -> Iterator[Line]:
    """All accounts, and of the users oneself; --all: everybody."""
    accounts = {one.lower() for one in (said.get("accounts") or "").split(",") if one}
    users = {one for one in (said.get("users") or "").split(",") if one}
    if not users and "all" not in said:
        users = {pwd.getpwuid(os.getuid()).pw_name}
    for line in lines(root):
        if accounts and line.account not in accounts:
            continue
        if line.node.user and users and line.node.name not in users:
            continue
        if "Users" in said and not line.node.user:
            continue
        yield line


def lines(root: Node) -> Iterator[Line]:
    """In the order of the tree."""
    yield from _lines(root, "root", 0, root.usage)


def _lines(node: Node, account: str, depth: int, total: float) -> Iterator[Line]:
    yield Line(node, account, depth, total, depth)
    for each in node.below:
        yield from _lines(each, account if each.user else each.name, depth + 1, total)


def show(columns: Sequence[tuple[str, int]], found: Sequence[Line], said: Mapping[str, str | None]) -> None:
    rows = [[_FIELDS[name][1](line) for name, _ in columns] for line in found]
    if "parsable" in said or "parsable2" in said:
        after = "|" if "parsable" in said else ""
        if "noheader" not in said:
            print("|".join(name for name, _ in columns) + after)
        for row in rows:
            print("|".join(row) + after)
        return
    if "noheader" not in said:
        print("".join(_fit(name, width) for name, width in columns))
        print("".join("-" * abs(width) + " " for _, width in columns))
    for row in rows:
        print("".join(_fit(text, width) for text, (_, width) in zip(row, columns, strict=True)))


def _fit(text: str, width: int) -> str:
    cut = text if len(text) <= abs(width) else text[: abs(width) - 1] + "+"
    return (cut.ljust(-width) if width < 0 else cut.rjust(width)) + " "


def _columns(said: Mapping[str, str | None], *, classic: bool) -> list[tuple[str, int]]:
    default = (CLASSIC_LONG if classic else LONG) if "long" in said else DEFAULT
    if "partition" in said:
        default = default.replace("User,", "User,Partition,")
    lower = {name.lower(): name for name in _FIELDS}
    found = []
    for word in (said.get("format") or default).split(","):
        match = _FIELD.fullmatch(word)
        name = lower.get(match[1].lower()) if match is not None else None
        if match is None or name is None:
            raise Usage(f'sshare: error: Invalid field requested: "{word}"')
        found.append((name, read_width(match[2]) if match[2] else _FIELDS[name][0]))
    return found


def _account(line: Line) -> str:
    return " " * line.indent + line.account


def _shares(line: Line) -> str:
    if line.depth == 0:
        return ""
    return "parent" if line.node.shares == PARENT else str(line.node.shares)


def _fair_share(line: Line) -> str:
    return f"{line.node.fair_share:.6f}" if line.node.user or line.classic else ""


def _norm_usage(line: Line) -> str:
    if line.depth == 0:
        return ""
    return f"{line.node.usage / line.total if line.total else 0.0:.6f}"


def _level(line: Line) -> str:
    if line.node.shares == PARENT:
        return ""
    if line.classic:
        return "0.000000"
    if line.depth == 0:
        return ""
    return "inf" if line.node.level == inf else f"{line.node.level:.6f}"


def _run_minutes(line: Line) -> str:
    users = [one for one in _lines(line.node, line.account, 0, 0.0) if one.node.user]
    mine = [line.held.get((one.account, one.node.name), {}) for one in users]
    return ",".join(f"{name}={int(sum(each.get(name, 0.0) for each in mine))}" for name in _TRES)


def _norm(line: Line) -> str:
    return f"{line.node.norm_shares:.6f}"


_FIELDS: dict[str, tuple[int, Callable[[Line], str]]] = {
    "Account": (-20, _account),
    "User": (10, lambda line: line.node.name if line.node.user else ""),
    "Partition": (12, lambda line: ""),
    "RawShares": (10, _shares),
    "NormShares": (11, _norm),
    "RawUsage": (11, lambda line: str(int(line.node.usage))),
    "NormUsage": (11, _norm_usage),
    "EffectvUsage": (13, lambda line: f"{line.node.effective_usage:.6f}"),
    "FairShare": (10, _fair_share),
    "LevelFS": (10, _level),
    "GrpTRESMins": (30, lambda line: ""),
    "TRESRunMins": (30, _run_minutes),
}
