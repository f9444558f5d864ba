"""Sum the resources that jobs held in a period, by account and user. The database of the ledger computes the sums.

Jobs of all kinds count. The account of a job is its queue. The user of a job is its Slurm user (the job's group) or,
for other jobs, the API user who submitted the job. Of a run that began before the period or ended after it, only the
time within the period counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from phalanx.slurm.cluster.ledger import LedgerReader, marks

_USER = "CASE WHEN j.number IS NOT NULL AND j.group_name <> '' THEN j.group_name ELSE j.user_name END"
_NAMES = {"cpu": "cpu", "memory": "mem", "nvidia.com/gpu": "gres/gpu"}
_UNITS = {"cpu": 1000, "memory": 1 << 20, "nvidia.com/gpu": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period from `since_s` to `until_s`, in seconds since the epoch. `now_s`: the present time; runs that have not
    ended count until then."""

    since_s: float
    until_s: float
    now_s: float

    @property
    def last_s(self) -> float:
        return min(self.until_s, self.now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedResources:
    """The resources that runs with the same account, user and allocation held. `account`: the path of the account from
    the root, with `/` between the names. `seconds`: the sum of the run times. `count`: the number of jobs. `tres`: the
    amounts that each run held, by Slurm's names (cpu in CPUs, mem in MiB)."""

    account: str
    user: str
    seconds: float
    count: int
    tres: dict[str, float]

    @property
    def cpus(self) -> int:
        return int(self.tres.get("cpu", 0))


def held(ledger: LedgerReader, period: Period, users: Iterable[str] = (), word: str = "") -> list[UsedResources]:
    """Return the resources that jobs held in the period; runs with the same account, user and allocation are summed.
    `users`: only jobs of these users; empty: all. `word`: a field of the job's request (`wckey`, `reservation`); if it
    is not "", the results have the value of this field instead of the account. Raises PhalanxError."""
    account = ledger.asked(word) if word else "j.account"
    ends = f"COALESCE(s.end_s, j.end_s, {period.now_s!r})"
    begin = f"CASE WHEN s.at_s > {period.since_s!r} THEN s.at_s ELSE {period.since_s!r} END"
    end = f"CASE WHEN {ends} < {period.last_s!r} THEN {ends} ELSE {period.last_s!r} END"
    named = sorted(users)
    of_users = f" AND {_USER} IN ({marks(named)})" if named else ""
    statement = (  # the inserted parts are numbers and texts of this module, never values of users
        f"SELECT {account}, {_USER}, s.allocated, SUM({end} - ({begin})), COUNT(DISTINCT j.id) "  # noqa: S608 (no values in it)
        "FROM ledger_job j JOIN ledger_start s ON s.job_id = j.id "
        "WHERE (j.end_s IS NULL OR j.end_s > ?) AND j.submit_s < ? AND s.at_s < ? "
        f"AND {ends} > ? AND {ends} > s.at_s{of_users} GROUP BY 1, 2, 3"
    )
    values = [period.since_s, period.last_s, period.last_s, period.since_s, *named]
    return [
        UsedResources(account=account, user=user, seconds=seconds, count=count, tres=_tres(allocated))
        for account, user, allocated, seconds, count in ledger.rows(statement, values)
    ]


def _tres(allocated: str) -> dict[str, float]:
    known = msgspec.json.decode(allocated, type=dict[str, float])
    found = {slurms: known[name] / _UNITS[name] for name, slurms in _NAMES.items() if known.get(name)}
    return {**found, "billing": found.get("cpu", 0.0)}


def waited_cpu_s(ledger: LedgerReader, period: Period) -> float:
    """Return the sum of the requested CPUs times the seconds of waiting, over all eligible jobs that waited in the
    period."""
    starts = "SELECT MIN(s.at_s) FROM ledger_start s WHERE s.job_id = j.id"
    rows = ledger.rows(
        f"SELECT j.requested, j.eligible_s, j.end_s, ({starts}) FROM ledger_job j "  # noqa: S608 (no values in it)
        "WHERE (j.end_s IS NULL OR j.end_s > ?) AND j.submit_s < ? AND j.eligible_s < ?",
        [period.since_s, period.last_s, period.last_s],
    )
    total_s = 0.0
    for requested, eligible_s, end_s, start_s in rows:
        until_s = min(one for one in (start_s, end_s, period.last_s) if one is not None)
        waited_s = until_s - max(eligible_s, period.since_s)
        total_s += max(0.0, waited_s) * msgspec.json.decode(requested, type=dict[str, float]).get("cpu", 0.0) / 1000
    return total_s
