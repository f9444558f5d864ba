"""Quota is short: the limit, the requested, used and allowed amounts, the consumers, and the expected release.

In queues with limits this reason is computed as often as `no_capacity`, and read as seldom. So facts that change later
are stored at once (`QuotaShortage`), and the sentence is made when a user reads it (`model.reason.LazyReason`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from phalanx.core.quota.ledger import QuotaShortfall
from phalanx.core.reasons import expected_release
from phalanx.model.pod import Amount, format_amount, json_number
from phalanx.model.reason import ReasonCode
from phalanx.state.pending.headroom import Rule
from phalanx.state.queues.quota import Key

Holders = tuple[tuple[str, Amount], ...]

CODES: Final[dict[Rule, ReasonCode]] = {
    Rule.LIMIT: ReasonCode.QUEUE_LIMIT,
    Rule.GUARANTEE: ReasonCode.QUEUE_QUOTA,
    Rule.POOL: ReasonCode.QUEUE_QUOTA,
    Rule.KEEP: ReasonCode.QUEUE_QUOTA,
    Rule.RUNNING: ReasonCode.QUEUE_LIMIT,
    Rule.USER: ReasonCode.USER_LIMIT,
    Rule.USER_RUNNING: ReasonCode.USER_LIMIT,
    Rule.GROUP: ReasonCode.USER_LIMIT,
    Rule.GROUP_RUNNING: ReasonCode.USER_LIMIT,
    Rule.JOB: ReasonCode.QUEUE_LIMIT,
}


class QuotaConsumers(NamedTuple):
    """The largest consumers of the amount that a bound limits. `consumers`: queues or jobs with their amounts.
    `running`: for a limit on running jobs, a few of these jobs. `jobs`: the largest jobs, if `consumers` are queues."""

    consumers: Holders = ()
    running: tuple[str, ...] = ()
    jobs: Holders = ()


class QuotaShortage(NamedTuple):
    """The facts of the reason. `own`: the job's queue. `within`: (number of pods that the limit allows, number of pods
    that the gang needs). `enough`: the expected release: (seconds since the epoch, days from now)."""

    own: str
    lack: QuotaShortfall
    within: tuple[int, int] | None
    had: QuotaConsumers
    enough: tuple[float, int] | None

    def text(self) -> str:
        said, bound, known = self.said(), self.lack.bound, []
        if self.within is not None:
            known.append(f"{self.within[0]} of its {self.within[1]} pods would be within that")
        if self.had.consumers:
            known.append(f"most is used by {listed(bound.key, self.had.consumers)}")
        if self.had.running:
            others = self.lack.used - len(self.had.running)
            known.append(f"{', '.join(self.had.running)}{f' and {others} more' if others > 0 else ''}")
        if self.had.jobs:
            jobs = "job is" if len(self.had.jobs) == 1 else "jobs are"
            known.append(f"the largest {jobs} {listed(bound.key, self.had.jobs)}")
        if self.enough is not None:
            known.append(expected_release.release_text(*self.enough))
        return f"{said} ({'; '.join(known)})" if known else said

    def said(self) -> str:
        lack, bound = self.lack, self.lack.bound
        asked, used, allowed = (amount(bound.key, each) for each in (lack.asked, lack.used, lack.allowed))
        queue = "" if not bound.queue else f"queue {whose(bound.queue, self.own)}"
        match bound.rule:
            case Rule.LIMIT:
                return f"{asked} asked, but {queue} uses {used} of its limit of {allowed}"
            case Rule.GUARANTEE:
                return (
                    f"{asked} asked, but {queue} uses {used} of the {allowed} guaranteed to it, and this may not borrow"
                )
            case Rule.POOL | Rule.KEEP:
                left = amount(bound.key, max(0, lack.allowed - lack.used))
                unused = f"only {left} of the cluster's {allowed} are neither in use nor kept by queues"
                return f"{asked} to borrow, but {unused}"
            case Rule.RUNNING:
                return f"{queue} runs {lack.used} of at most {lack.allowed} jobs"
            case Rule.USER_RUNNING | Rule.GROUP_RUNNING:
                return f"{who(bound.rule, bound.whose)} runs {lack.used} of at most {lack.allowed} jobs in {queue}"
            case Rule.USER | Rule.GROUP:
                return f"{asked} asked, but {who(bound.rule, bound.whose)} uses {used} of at most {allowed} in {queue}"
            case Rule.JOB:
                return f"{asked} asked, but it uses {used} of the {allowed} that {queue} allows a job"

    def numbers(self) -> Mapping[str, Any]:
        lack, bound = self.lack, self.lack.bound
        found: dict[str, Any] = {"queue": bound.queue, "rule": str(bound.rule), "asked": json_number(lack.asked)}
        found |= {
            "used": json_number(lack.used),
            "allowed": lack.allowed,
            "flavor": bound.key[0],
            "resource": bound.key[1],
        }
        found["whose"] = bound.whose
        if self.within is not None:
            found["fit"], found["pods"] = self.within
        if self.had.consumers:
            found["holders"] = {name: json_number(has) for name, has in self.had.consumers}
        if self.had.running:
            found["holders"] = dict.fromkeys(self.had.running, 1)
        if self.had.jobs:
            found["jobs"] = {name: json_number(has) for name, has in self.had.jobs}
        if self.enough is not None:
            found["enough_s"] = self.enough[0]
        return found

    def names(self, job: str) -> bool:
        return job in self.had.running or any(job == name for name, _ in self.had.consumers)


def listed(key: Key, holders: Sequence[tuple[str, Amount]]) -> str:
    return ", ".join(f"{name} ({format_amount(key[1], has)})" for name, has in holders)


def who(rule: Rule, name: str) -> str:
    kind = "user" if rule in {Rule.USER, Rule.USER_RUNNING} else "group"
    return f"{kind} {name!r}" if name else f"whoever names no {kind}"


def whose(name: str, own: str) -> str:
    return f"{name!r}" if name == own else f"{name!r} (above {own!r})"


def amount(key: Key, value: Amount) -> str:
    """Return the amount as `4 cpu on spot`."""
    flavor, resource = key
    return f"{format_amount(resource, value)} {resource}{' on ' + flavor if flavor else ''}" if resource else str(value)
