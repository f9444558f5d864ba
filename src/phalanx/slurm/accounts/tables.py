"""What sacctmgr lists: rows by field, and the forms in which they are printed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from phalanx.slurm.cluster.site import Association, Site
from phalanx.slurm.jobs.nodes import Node
from phalanx.slurm.notation import times
from phalanx.slurm.notation.amounts import read_width
from phalanx.slurm.options import Usage

Row = dict[str, str]
ASSOCIATION = (
    "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,"
    "MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,Def QOS,GrpTRESRunMin"
)
QOS = (
    "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags,UsageThres,UsageFactor,GrpTRES,GrpTRESMins,"
    "GrpTRESRunMin,GrpJobs,GrpSubmit,GrpWall,MaxTRES,MaxTRESPerNode,MaxTRESMins,MaxWall,MaxTRESPU,MaxJobsPU,"
    "MaxSubmitPU,MaxTRESPA,MaxJobsPA,MaxSubmitPA,MinTRES"
)
_FIELD = re.compile(r"([A-Za-z ]+)(?:%(-?\d+))?")
# field -> (heading, width); what can be asked for by other names besides
_FIELDS = {
    "account": ("Account", 10), "descr": ("Descr", 20), "org": ("Org", 20), "coord": ("Coord", 20),
    "user": ("User", 10), "def acct": ("Def Acct", 10), "admin": ("Admin", 9), "share": ("Share", 9),
    "cluster": ("Cluster", 10), "partition": ("Partition", 10), "priority": ("Priority", 10),
    "parentname": ("Par Name", 10), "qos": ("QOS", 20), "def qos": ("Def QOS", 9), "name": ("Name", 10),
    "grpjobs": ("GrpJobs", 7), "grptres": ("GrpTRES", 13), "maxjobs": ("MaxJobs", 7), "grpwall": ("GrpWall", 11),
    "maxwall": ("MaxWall", 11), "maxsubmitjobs": ("MaxSubmit", 9), "grpsubmitjobs": ("GrpSubmit", 9),
    "maxtres": ("MaxTRES", 13), "gracetime": ("GraceTime", 10), "preempt": ("Preempt", 10),
    "preemptexempttime": ("PreemptExemptTime", 19), "preemptmode": ("PreemptMode", 11), "flags": ("Flags", 40),
    "usagethreshold": ("UsageThres", 10), "usagefactor": ("UsageFactor", 11), "grptresmins": ("GrpTRESMins", 13),
    "grptresrunmins": ("GrpTRESRunMin", 13), "maxtrespernode": ("MaxTRESPerNode", 14),
    "maxtresmins": ("MaxTRESMins", 13), "maxtresperuser": ("MaxTRESPU", 13), "maxjobsperuser": ("MaxJobsPU", 9),
    "maxsubmitjobsperuser": ("MaxSubmitPU", 11), "maxtresperaccount": ("MaxTRESPA", 13),
    "wckey": ("WCKey", 10), "type": ("Type", 8), "tresname": ("Name", 15), "id": ("ID", 6),
    "nodename": ("NodeName", 15), "start": ("TimeStart", 19), "end": ("TimeEnd", 19), "state": ("State", 6),
    "reason": ("Reason", 30), "by": ("User", 10),
    "maxjobsperaccount": ("MaxJobsPA", 9), "maxsubmitjobsperaccount": ("MaxSubmitPA", 11), "mintres": ("MinTRES", 13),
}  # fmt: skip
_ALSO = {
    "fairshare": "share", "shares": "share", "defaultaccount": "def acct", "adminlevel": "admin",
    "description": "descr", "organization": "org", "coordinators": "coord", "defaultqos": "def qos",
    "parent": "parentname", "maxsubmit": "maxsubmitjobs", "grpsubmit": "grpsubmitjobs", "coordinator": "coord",
    "usagethres": "usagethreshold", "grptresrunmin": "grptresrunmins", "maxtrespu": "maxtresperuser",
    "maxjobspu": "maxjobsperuser", "maxsubmitpu": "maxsubmitjobsperuser", "maxsubmitjobspu": "maxsubmitjobsperuser",
    "maxtrespa": "maxtresperaccount", "maxjobspa": "maxjobsperaccount", "maxsubmitpa": "maxsubmitjobsperaccount",
    "maxwallpj": "maxwall", "maxtrespj": "maxtres", "maxwalldurationperjob": "maxwall", "maxtresperjob": "maxtres",
}  # fmt: skip


def accounts(site: Site, names: Sequence[str]) -> list[Row]:
    rows = [
        {
            "account": name,
            "descr": one.description or name,
            "org": one.organization or name,
            "coord": ",".join(one.coordinators),
        }
        for name, one in sorted(site.accounts.items())
    ]
    rows.append({"account": "root", "descr": "default root account", "org": "root"})
    return [row for row in rows if not names or row["account"] in names]


def users(site: Site, names: Sequence[str], *, each: bool) -> list[Row]:
    """`each`: a row for each association."""
    rows: list[Row] = []
    known = {"root": [Association(account="root")], **site.users}
    for user, theirs in sorted(known.items()):
        if (names and user not in names) or (user == "root" and each):
            continue
        row = {"user": user, "def acct": theirs[0].account if theirs else "", "admin": _admin(site, user)}
        rows += [{**row, **_association(site, user, one.account)} for one in _ordered(theirs)] if each else [row]
    return rows


def _admin(site: Site, user: str) -> str:
    return "Administrator" if user == "root" else site.admins.get(user, "None")


def _ordered(theirs: Sequence[Association]) -> list[Association]:
    return sorted(theirs, key=lambda one: one.account)


def associations(site: Site, accounts: Sequence[str], users: Sequence[str]) -> list[Row]:
    """In the order of the tree: an account, its users, the accounts below it."""
    rows: list[Row] = []

    def walk(name: str, parent: str) -> None:
        if not users and (not accounts or name in accounts):
            shares = site.accounts[name].shares if name in site.accounts else 1
            row = {
                "cluster": site.cluster,
                "account": name,
                "parentname": parent,
                "share": str(shares),
                "qos": "normal",
            }
            rows.append(row | (dict(site.accounts[name].limits) if name in site.accounts else {}))
        for user, theirs in sorted(site.users.items()):
            mine = any(one.account == name for one in theirs) and (not users or user in users)
            if mine and (not accounts or name in accounts):
                rows.append({"cluster": site.cluster, **_association(site, user, name), "user": user})
        for below in sorted(one for one, account in site.accounts.items() if (account.parent or "root") == name):
            walk(below, name)

    walk("root", "")
    return rows


def _association(site: Site, user: str, account: str) -> Row:
    one = next(one for one in site.users[user] if one.account == account)
    shares = "parent" if one.shares < 0 else str(one.shares)
    qos = ",".join(sorted(one.qos)) or "normal"
    of_account = site.accounts[account].limits if account in site.accounts else {}
    per_user = {name: text for name, text in of_account.items() if name.startswith("max")}
    return {**per_user, **one.limits, "account": account, "share": shares, "qos": qos, "def qos": one.default_qos}


def qos(site: Site, names: Sequence[str]) -> list[Row]:
    return [
        {
            "name": name, "priority": str(one.priority), "descr": one.description, "gracetime": "00:00:00",
            "preempt": ",".join(one.preempt), "preemptmode": "cluster", "flags": ",".join(one.flags),
            "usagefactor": f"{one.usage_factor:.6f}", **one.limits,
        }
        for name, one in site.qos.items()
        if not names or name in names
    ]  # fmt: skip


def wckeys(site: Site, names: Sequence[str]) -> list[Row]:
    return [
        {"wckey": key, "cluster": site.cluster, "user": user}
        for key, user in sorted((key, user) for user, keys in site.wckeys.items() for key in keys)
        if not names or key in names
    ]


def tres() -> list[Row]:
    """Return Slurm's kinds of resources, with its numbers."""
    kinds = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
    pairs = [*((one, number) for number, one in enumerate(kinds, 1)), ("gres/gpu", 1001)]
    return [
        {
            "type": kind.partition("/")[0],
            "tresname": kind.partition("/")[2],
            "name": kind.partition("/")[2],
            "id": str(number),
        }
        for kind, number in pairs
    ]


def events(site: Site, nodes: Sequence[Node], names: Sequence[str]) -> list[Row]:
    """Return the nodes that are drained or down now. Past events are not recorded."""
    return [
        {
            "cluster": site.cluster, "nodename": node.name, "start": node.reason_s or times.moment(node.down_s),
            "end": "Unknown", "state": "DRAIN" if node.drained else "DOWN",
            "reason": node.reason or "Not responding", "by": node.reason_by,
        }
        for node in nodes
        if (node.drained or not node.ready) and (not names or node.name in names)
    ]  # fmt: skip


def show(rows: Sequence[Row], form: str, options: Mapping[str, str | None]) -> None:
    """Raises Usage for a field that does not exist."""
    columns = []
    for word in form.split(","):
        match = _FIELD.fullmatch(word.strip())
        name = match[1].lower() if match is not None else ""
        name = _ALSO.get(name, name)
        if name and name not in _FIELDS:  # a name may be typed by its beginning
            name = next((one for one in (*_FIELDS, *_ALSO) if one.startswith(name)), name)
            name = _ALSO.get(name, name)
        if match is None or name not in _FIELDS:
            raise Usage(f" Unknown field '{word}'".removeprefix(" "))
        columns.append((name, read_width(match[2]) if match[2] else _FIELDS[name][1]))
    lines = [[row.get(name, "") for name, _ in columns] for row in rows]
    headings = [_FIELDS[name][0] for name, _ in columns]
    if "parsable" in options or "parsable2" in options:
        after = "|" if "parsable" in options else ""
        for line in lines if "noheader" in options else [headings, *lines]:
            print("|".join(line) + after)
        return
    if "noheader" not in options:
        print("".join(_fit(text, width) for text, (_, width) in zip(headings, columns, strict=True)))
        print("".join("-" * abs(width) + " " for _, width in columns))
    for line in lines:
        print("".join(_fit(text, width) for text, (_, width) in zip(line, columns, strict=True)))


def _fit(text: str, width: int) -> str:
    cut = text if len(text) <= abs(width) else text[: abs(width) - 1] + "+"
    return (cut.ljust(-width) if width < 0 else cut.rjust(width)) + " "
