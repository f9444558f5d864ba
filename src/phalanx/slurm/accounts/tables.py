"""Build the rows that `sacctmgr list` prints. A row is a mapping: heading of a column, in lower case -> value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from phalanx.slurm.cluster.site import Association, Site
from phalanx.slurm.jobs.nodes import NodeInfo
from phalanx.slurm.notation import times

Row = dict[str, str]
# stored name of a limit -> the heading of its column, if both differ
_SHORT = {
    "maxsubmitjobs": "maxsubmit", "grpsubmitjobs": "grpsubmit", "maxtresperuser": "maxtrespu",
    "maxjobsperuser": "maxjobspu", "maxsubmitjobsperuser": "maxsubmitpu",
}  # fmt: skip


def _limits(kept: Mapping[str, str]) -> Row:
    return {_SHORT.get(name, name): text for name, text in kept.items()}


def accounts(site: Site, names: Sequence[str], *, each: bool = False) -> list[Row]:
    """Return the rows of accounts. `names`: only these accounts; empty: all. `each`: True to return one row for each
    association of an account, False to return one row for each account."""
    rows = [
        {
            "account": name,
            "descr": one.description or name,
            "org": one.organization or name,
            "coord accounts": ",".join(one.coordinators),
        }
        for name, one in site.accounts.items()
    ]
    rows.append({"account": "root", "descr": "default root account", "org": "root"})
    rows.sort(key=lambda row: row["account"])
    rows = [row for row in rows if not names or row["account"].lower() in {*map(str.lower, names)}]
    if not each:
        return rows
    of = by_creation(site, associations(site, [], []))
    return [{**row, **one} for row in rows for one in of if one["account"] == row["account"]]


def users(site: Site, names: Sequence[str], *, each: bool) -> list[Row]:
    """Return the rows of users. `names`: only these users; empty: all. `each`: True to return one row for each
    association of a user, False to return one row for each user."""
    rows: list[Row] = []
    known = {"root": [Association(account="root")], **site.users}
    for user, theirs in sorted(known.items()):
        if names and user.lower() not in map(str.lower, names):
            continue
        row = {"user": user, "def acct": theirs[0].account if theirs else "", "admin": _admin(site, user)}
        rows += (
            [{**row, "cluster": site.cluster, **_association(site, user, one.account)} for one in _ordered(theirs)]
            if each
            else [row]
        )
    return rows


def _admin(site: Site, user: str) -> str:
    return "Administrator" if user == "root" else site.admins.get(user, "None")


def _ordered(theirs: Sequence[Association]) -> list[Association]:
    return sorted(theirs, key=lambda one: one.account)


def associations(site: Site, accounts: Sequence[str], users: Sequence[str], *, own: bool = False) -> list[Row]:
    """Return the rows of associations in the order of the tree: an account, then its users, then the accounts below it.
    `accounts`, `users`: return only associations of these accounts and users; empty: of all. `own`: True to leave out
    values that are inherited from accounts above."""
    rows: list[Row] = []

    def walk(name: str, parent: str) -> None:
        if (not users or "" in users) and (not accounts or name in accounts):
            shares = site.accounts[name].shares if name in site.accounts else 1
            row = {
                "cluster": site.cluster,
                "account": name,
                "parentname": parent,
                "share": str(shares),
                "qos": "" if own and name in site.accounts else "normal",
            }
            rows.append(row | (_limits(site.accounts[name].limits) if name in site.accounts else {}))
        for user, theirs in sorted({"root": [Association(account="root")], **site.users}.items()):
            mine = any(one.account == name for one in theirs) and (not users or user.lower() in users)
            if mine and (not accounts or name in accounts):
                rows.append({"cluster": site.cluster, **_association(site, user, name, own=own), "user": user})
        for below in sorted(one for one, account in site.accounts.items() if (account.parent or "root") == name):
            walk(below, name)

    walk("root", "")
    return rows


def _association(site: Site, user: str, account: str, *, own: bool = False) -> Row:
    known = {"root": [Association(account="root")], **site.users}[user]
    one = next(one for one in known if one.account == account)
    shares = "parent" if one.shares < 0 else str(one.shares)
    qos = ",".join(sorted(one.qos)) or ("" if own else "normal")
    of_account = site.accounts[account].limits if account in site.accounts else {}
    per_user = {name: text for name, text in of_account.items() if name.startswith("max") and not own}
    return {
        **_limits({**per_user, **one.limits}),
        "account": account,
        "share": shares,
        "qos": qos,
        "def qos": one.default_qos,
    }


def qos(site: Site, names: Sequence[str]) -> list[Row]:
    return [
        {
            "name": name, "priority": str(one.priority), "descr": one.description, "gracetime": "00:00:00",
            "preempt": ",".join(one.preempt), "preemptmode": "cluster", "flags": ",".join(one.flags),
            "usagefactor": f"{one.usage_factor:.6f}", **_limits(one.limits),
        }
        for name, one in site.qos.items()
        if not names or name.lower() in map(str.lower, names)
    ]  # fmt: skip


def wckeys(site: Site, names: Sequence[str]) -> list[Row]:
    return [
        {"wckeys": key, "cluster": site.cluster, "user": user}
        for key, user in sorted((key, user) for user, keys in site.wckeys.items() for key in keys)
        if not names or key in names
    ]


def tres() -> list[Row]:
    """Return the rows of Slurm's trackable resources (TRES), with the ids that they have in Slurm."""
    kinds = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
    pairs = [*((one, number) for number, one in enumerate(kinds, 1)), ("gres/gpu", 1001)]
    return [
        {
            "type": kind.partition("/")[0],
            "name": kind.partition("/")[2],
            "id": str(number),
        }
        for kind, number in pairs
    ]


def events(site: Site, nodes: Sequence[NodeInfo], names: Sequence[str]) -> list[Row]:
    """Return a row for the creation of the cluster, and a row for each node that is drained or down now. Phalanx does
    not record past events. `names`: only events of these nodes; empty: all."""
    began = (site.read.get("metadata") or {}).get("creationTimestamp") or ""
    began_s = datetime.fromisoformat(began).timestamp() if began else None
    registered = {
        "cluster": site.cluster, "timestart": times.moment(began_s, "Unknown"),
        "timeend": "Unknown", "reason": "Cluster Registered TRES",
    }  # fmt: skip
    now = [
        {
            "cluster": site.cluster, "nodename": node.name, "timestart": node.reason_s or times.moment(node.down_s),
            "timeend": "Unknown", "state": "DRAIN" if node.drained else "DOWN",
            "reason": node.reason or "Not responding", "user": node.reason_by,
        }
        for node in nodes
        if (node.drained or not node.ready) and (not names or node.name in names)
    ]  # fmt: skip
    return now if names else [registered, *now]


def is_default(site: Site, row: Row) -> bool:
    """Return whether the row shows the default association of a user."""
    user = row.get("user", "")
    theirs = site.users.get(user, [])
    return user == row["account"] == "root" or (bool(theirs) and theirs[0].account == row["account"])


def number(site: Site, account: str, user: str = "") -> str:
    """Return the id of an association; "" if it has none. `user`: the user; "" for the association of the account
    itself."""
    if account == "root" and user in ("", "root"):
        return "2" if user else "1"
    found = site.accounts[account].number if account in site.accounts else 0
    if user:
        found = next((one.number for one in site.users.get(user, ()) if one.account == account), 0)
    return str(found or "")


def _spans(site: Site) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the columns lft and rgt of each association: (account, user) -> (lft, rgt). They are Slurm's nested sets:
    the interval of an association contains the intervals of all associations below it. The newest sibling comes
    first."""
    below: dict[str, list[tuple[str, str]]] = {"root": [("root", "root")]}
    for name, account in site.accounts.items():
        below.setdefault(account.parent or "root", []).append((name, ""))
    for user, theirs in site.users.items():
        for one in theirs:
            below.setdefault(one.account, []).append((one.account, user))
    found: dict[tuple[str, str], tuple[int, int]] = {}

    def walk(key: tuple[str, str], at: int) -> int:
        """Number the association `key` and all associations below it, starting with `at`. Return the next free
        number."""
        end = at + 1
        for one in sorted(
            below.get(key[0], ()) if not key[1] else (), key=lambda one: (-int(number(site, *one) or 0), one)
        ):
            end = walk(one, end)
        found[key] = (at, end)
        return end + 1

    walk(("root", ""), 1)
    return found


def _key(row: Row) -> tuple[str, str]:
    return row["account"], row.get("user", "")


def by_creation(site: Site, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of associations, sorted by the column lft."""
    spans = _spans(site)
    return sorted(rows, key=lambda row: spans[_key(row)])


def in_tree(site: Site, rows: Sequence[Row]) -> list[tuple[int, Row]]:
    """Return the rows of associations in the order of the tree, each with its depth. Below an account come its users
    and then its accounts, both by name. A row has depth 0 if the account above it has no row."""
    spans, accounts = _spans(site), {row["account"] for row in rows if "user" not in row}
    below: dict[str, list[Row]] = {}
    for row in rows:
        own = site.accounts.get(row["account"])
        above = row["account"] if "user" in row else (own.parent or "root") if own is not None else ""
        below.setdefault(above if above in accounts else "", []).append(row)

    def walk(name: str, depth: int) -> Iterator[tuple[int, Row]]:
        for row in sorted(
            below.get(name, ()), key=lambda row: ("user" not in row, row.get("user", row["account"]), spans[_key(row)])
        ):
            yield depth, row
            if "user" not in row:
                yield from walk(row["account"], depth + 1)

    return list(walk("", 0))


def numbered(site: Site, row: Row) -> Row:
    """Return the row of an association with its columns id, lft and rgt."""
    if not (own := number(site, *_key(row))):
        return row
    lft, rgt = _spans(site)[_key(row)]
    return {**row, "id": own, "lft": str(lft), "rgt": str(rgt)}
