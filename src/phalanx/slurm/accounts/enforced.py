"""Check limits of QOS and of users' associations when a job is submitted. The queues of Phalanx do not have these
limits.

A refusal has Slurm's text, and a job that must wait has Slurm's reason. The limit on the running jobs of a user is not
checked here. The scheduler enforces this limit by treating the jobs as one job array, whose concurrency limit is the
user's limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from phalanx.slurm.cluster.site import Qos, Site
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.notation import amounts, times

if TYPE_CHECKING:
    from phalanx.slurm.jobs.view import JobInfo

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
_TRES = {"cpu": "Cpu", "mem": "Mem", "node": "Node", "gres/gpu": "GRES"}


class LimitCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check. `refused`: Slurm's name of the limit for which the job is refused; "" if it is accepted.
    `hold`: the reason for which the job is held until an administrator raises the limit; "" if it is not held. `cap`:
    the number of jobs of `group` that may run at the same time; further jobs wait with the reason `reason`."""

    refused: str = ""
    hold: str = ""
    cap: int = 0
    group: str = ""
    reason: str = ""


def check(here: Site, ask: Ask, count: int, live: Callable[[], Sequence[JobInfo]]) -> LimitCheck:
    """Check a job, or `count` tasks of an array, against the limits of its QOS, its association and its accounts.
    `live`: a function that returns the present jobs; it is called only to check a limit on the number of jobs."""
    qos = here.qos.get(ask.qos, Qos())
    own = next((one for one in here.users.get(ask.user, ()) if one.account == ask.account), None)
    limits = dict(own.limits) if own is not None else {}
    refused = _submitted(qos.limits, limits, ask, count, live) or _submitted_below(here, ask, count, live)
    if refused:
        return LimitCheck(refused=refused)
    reason = _size(qos.limits, limits, ask) or _wall_used_up(here, ask)
    if reason.startswith("QOS") and "DenyOnLimit" in qos.flags:
        return LimitCheck(refused=reason)
    caps = (
        (qos.limits.get("maxjobsperuser"), f"qos-{ask.qos}-{ask.user}", "QOSMaxJobsPerUserLimit"),
        (limits.get("maxjobs"), f"assoc-{ask.account}-{ask.user}", "AssocMaxJobsLimit"),
    )
    cap, group, why = next(((int(text), group, why) for text, group, why in caps if text), (0, "", ""))
    return LimitCheck(hold=reason, cap=cap, group=group, reason=why)


def _submitted(
    of_qos: Mapping[str, str], own: Mapping[str, str], ask: Ask, count: int, live: Callable[[], Sequence[JobInfo]]
) -> str:
    most_of_qos, most = of_qos.get("maxsubmitjobsperuser"), own.get("maxsubmitjobs")
    if not most_of_qos and not most:
        return ""
    theirs = [job for job in live() if job.live and job.ask.user == ask.user]
    if most_of_qos and sum(job.ask.qos == ask.qos for job in theirs) + count > int(most_of_qos):
        return "QOSMaxSubmitJobPerUserLimit"
    if most and sum(job.ask.account == ask.account for job in theirs) + count > int(most):
        return "AssocMaxSubmitJobLimit"
    return ""


def _submitted_below(here: Site, ask: Ask, count: int, live: Callable[[], Sequence[JobInfo]]) -> str:
    """Return `AssocGrpSubmitJobsLimit` if `count` more jobs would exceed the GrpSubmitJobs of the job's account, or of
    an account above it; otherwise ""."""
    account = ask.account
    while account in here.accounts:
        if most := here.accounts[account].limits.get("grpsubmitjobs"):
            below = {name for name in here.accounts if account in _path(here, name)}
            if sum(job.live and job.ask.account in below for job in live()) + count > int(most):
                return "AssocGrpSubmitJobsLimit"
        account = here.accounts[account].parent
    return ""


def _path(here: Site, account: str) -> list[str]:
    """Return the names of the account and of all accounts above it."""
    found = []
    while account in here.accounts and account not in found:
        found.append(account)
        account = here.accounts[account].parent
    return found


def _wall_used_up(here: Site, ask: Ask) -> str:
    """Return `AssocGrpWallLimit` if the GrpWall of the job's account, or of an account above it, is used up; otherwise
    "". The run times of an account's jobs come from the ledger, the accounting database."""
    account, limited = ask.account, dict[str, float]()
    while account in here.accounts:
        if text := here.accounts[account].limits.get("grpwall"):
            limited[account] = (times.read_limit_min(text) or 0) * 60
        account = here.accounts[account].parent
    if not limited:
        return ""
    from phalanx.slurm.accounts.used import Period, held
    from phalanx.slurm.cluster.ledger import LedgerReader, ledger_url

    if not ledger_url():
        return ""
    with LedgerReader.open() as ledger:
        rows = held(ledger, Period(since_s=0.0, until_s=time.time(), now_s=time.time()))
    for name, most_s in limited.items():
        if sum(row.seconds for row in rows if name in row.account.split("/")) >= most_s:
            return "AssocGrpWallLimit"
    return ""


def _size(of_qos: Mapping[str, str], own: Mapping[str, str], ask: Ask) -> str:
    """Return Slurm's name of the first limit on a single job that the job exceeds; "" if it exceeds none."""
    if _too_long(ask, of_qos.get("maxwall")):
        return "QOSMaxWallDurationPerJobLimit"
    if name := _exceeded(ask, of_qos.get("maxtres")):
        return f"QOSMax{name}PerJobLimit" if name != "GRES" else "QOSMaxGRESPerJob"
    if name := _exceeded(ask, of_qos.get("maxtresperuser")):
        return {"GRES": "QOSMaxGRESPerUser", "Mem": "QOSMaxMemoryPerUser"}.get(name, f"QOSMax{name}PerUserLimit")
    if _too_long(ask, own.get("maxwall")):
        return "AssocMaxWallDurationPerJobLimit"
    if name := _exceeded(ask, own.get("maxtres")):
        return f"AssocMax{name}PerJobLimit" if name != "GRES" else "AssocMaxGRESPerJob"
    return ""


def _too_long(ask: Ask, text: str | None) -> bool:
    most = times.read_limit_min(text) if text else None
    return most is not None and (ask.limit_min is None or ask.limit_min > most)


def _exceeded(ask: Ask, text: str | None) -> str:
    asked = {
        "cpu": ask.cpus, "mem": ask.total_mib, "node": ask.node_count, "gres/gpu": ask.total_gpus
    }  # fmt: skip
    return next((_TRES[name] for name, most in _pairs(text or "") if asked[name] > most), "")


def _pairs(text: str) -> Iterable[tuple[str, int]]:
    for part in text.split(","):
        name, _, amount = part.partition("=")
        if name in _TRES:
            yield name, amounts.read_mib(amount) if name == "mem" else int(amount)
