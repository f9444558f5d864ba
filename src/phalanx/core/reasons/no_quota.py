"""Compute the reason of a job that may not start because of a limit or a quota, or because the first job of its strict
queue waits.

If quota is short, the reason states the limit, its queue or user, and the requested, used and allowed amounts. The
reason also names the queues and jobs that use the quota, and the time at which enough quota is expected to be released.

In queues with limits, reasons for missing quota are computed very often, but users read few of them. So a cycle only
stores the facts, as they are at that moment (`QuotaShortage`). The text is made from these facts when a user reads the
reason (`model.reason.LazyReason`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from math import ceil
from typing import Any, Final, NamedTuple

from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.flavor_assignment import FlavorAssignment
from phalanx.core.quota.ledger import QuotaLedger, QuotaShortfall, is_firm
from phalanx.core.reasons import no_capacity
from phalanx.core.reasons.stated import stated_cost
from phalanx.model.pod import Amount, format_amount, json_number
from phalanx.model.reason import NEVER, LazyReason, Reason, ReasonCode
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.queues.bounds import Bound, Rule
from phalanx.state.queues.branch import Branch
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
    """The queues and jobs that use most of what a limit (the bound) restricts. `consumers`: the largest queues or jobs,
    with their amounts. `running`: some of the running jobs, if the bound limits the number of running jobs. `jobs`: the
    largest jobs with their amounts, if `consumers` has queues."""

    consumers: Holders = ()
    running: tuple[str, ...] = ()
    jobs: Holders = ()


class QuotaShortage(NamedTuple):
    """The facts from which the text of a reason for missing quota is made. `own`: the job's queue. `within`: (number of
    pods that the limit allows, number of pods that the gang needs). `enough`: when the missing amount is expected to be
    released: (seconds since the epoch, full days from now)."""

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
            known.append(no_capacity.release_text(*self.enough))
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
    """Return the amount as text, for example `4 cpu on spot`."""
    flavor, resource = key
    return f"{format_amount(resource, value)} {resource}{' on ' + flavor if flavor else ''}" if resource else str(value)


OF_SOMEBODY = {Rule.USER, Rule.USER_RUNNING, Rule.GROUP, Rule.GROUP_RUNNING, Rule.JOB}
LARGEST = 3
ENDS = 32  # the expected ends of at most this many jobs are examined to find when enough quota is released
# the largest jobs of a queue with children are searched among this many of the largest consumers of the cluster, and
# the jobs that this cycle starts
SEARCHED = 16
LOOKED_AT = 1000  # if a queue has at most this many jobs, all of them are examined to find the largest


def never(text: str, **numbers: object) -> Reason:
    return Reason(code=ReasonCode.NEVER_WITHIN_LIMIT, text=text, numbers=numbers)


def behind_head(cluster: Cluster, head: str, queue: str, why: Reason | None) -> Reason:
    """Return the reason of a job that waits behind the first job (the head) of a strict queue. `why`: the reason of the
    head; None if it has no reason yet."""
    numbers: dict[str, object] = {"queue": queue, "head": head, "head_code": None if why is None else str(why.code)}
    text = f"queue {queue!r} is strict, and {head} is before it and waits"
    if why is not None:
        text += f" ({why.code}"
        if (enough_s := why.numbers.get("enough_s")) is not None:
            numbers["enough_s"] = enough_s
            text += f"; {no_capacity.release_text(enough_s, no_capacity.days(cluster, enough_s))}"
        text += ")"
    return Reason(code=ReasonCode.BEHIND_HEAD, text=text, numbers=numbers)


def why_not(cluster: Cluster, ledger: QuotaLedger, own: str, offer: FlavorAssignment) -> Reason:
    """Return the reason why quota does not allow this assignment of flavors. `own`: the job's queue."""
    assert offer.short is not None
    lack = flavor_assignment.never_allowed(cluster.tree, offer)
    if lack is not None:
        return never_allowed(cluster, own, lack, stated_cost(offer.gang, lack.bound.key[1], lack.asked))
    return short(cluster, ledger, own, offer.short, pods_within(offer.gang, offer.short))


def pods_within(gang: Gang, lack: QuotaShortfall) -> tuple[int, int] | None:
    """Return (number of pods that the limit allows, number of pods that the gang needs) for a gang of one role with
    several pods; None for a gang with several roles or a single pod, or if the limit does not depend on the number of
    pods."""
    if len(gang.roles) != 1 or (pods := gang.minimums[0]) < 2:
        return None
    each = dict(gang.demands[0].costs).get(lack.bound.key[1], 0)
    return (max(0, pods - ceil((lack.used + lack.asked - lack.allowed) / each)), pods) if each else None


def never_allowed(cluster: Cluster, own: str, lack: QuotaShortfall, stated: Amount) -> Reason:
    """Return the reason of a job that the quota of its queue would not allow even if no other job ran. `stated`: the
    amount `lack.asked` as the job states it."""
    bound, queue = lack.bound, f"queue {whose(lack.bound.queue, own)}"
    asked, allowed = amount(bound.key, stated), amount(bound.key, lack.allowed)
    numbers: dict[str, object] = {"queue": bound.queue, "rule": str(bound.rule)}
    numbers |= {
        "flavor": bound.key[0],
        "resource": bound.key[1],
        "asked": json_number(stated),
        "allowed": json_number(lack.allowed),
    }
    kept = f" less {amount(bound.key, lack.used)} that queues keep, used or not" if lack.used else ""
    match bound.rule:
        case Rule.POOL | Rule.KEEP:
            text = f"{asked} to borrow, but the cluster has {allowed}{kept}"
            return Reason(
                code=ReasonCode.NEVER_FITS,
                text=text,
                numbers=numbers | {"kept": json_number(lack.used)},
                more_nodes_help=True,
            )
        case Rule.GUARANTEE:
            text = f"{asked} asked, but {queue} is guaranteed {allowed}, and this may not borrow"
        case Rule.LIMIT:
            text = f"{asked} asked, but {queue} allows {allowed} in all{kept}"
            numbers |= {"kept": json_number(lack.used)} if lack.used else {}
        case Rule.USER | Rule.GROUP:
            text = f"{asked} asked, but {queue} allows {who(bound.rule, bound.whose)} {allowed}"
        case Rule.JOB:
            text = f"{asked} asked, but {queue} allows {allowed} a job"
        case Rule.RUNNING:
            text = f"{queue} runs at most {allowed} jobs"
        case Rule.USER_RUNNING | Rule.GROUP_RUNNING:
            text = f"{who(bound.rule, bound.whose)} runs at most {allowed} jobs in {queue}"
    return never(text, **numbers)


def short(
    cluster: Cluster, ledger: QuotaLedger, own: str, lack: QuotaShortfall, within: tuple[int, int] | None = None
) -> Reason:
    """Return the reason of a job that quota does not allow at present. `lack`: the limit that does not allow the
    job. `own`: the job's queue. `within`: the result of `pods_within`."""
    enough_s = comes_back_s(cluster, ledger, lack)
    enough = None if enough_s is None else (enough_s, no_capacity.days(cluster, enough_s))
    return LazyReason(
        CODES[lack.bound.rule], QuotaShortage(own, lack, within, had(cluster, ledger, lack.bound), enough)
    )


def had(cluster: Cluster, ledger: QuotaLedger, bound: Bound) -> QuotaConsumers:
    """Return the largest consumers of the resource that the bound limits. The grants of this cycle are included."""
    remembered = ledger.had.setdefault(bound.queue, {})
    known: QuotaConsumers | None = remembered.get(bound)
    if known is None:
        if not bound.key[1]:
            known = QuotaConsumers(running=those_that_run(cluster, ledger, bound))
        elif bound.rule is Rule.JOB:
            known = QuotaConsumers()
        else:
            known = QuotaConsumers(largest(cluster, ledger, bound), (), largest_jobs(cluster, ledger, bound))
        remembered[bound] = known
    return known


def comes_back_s(cluster: Cluster, ledger: QuotaLedger, lack: QuotaShortfall) -> float | None:
    """Return the time (seconds since the epoch) by which running jobs are expected to have released the missing amount;
    None if this time is unknown. `no_capacity.expected_release_s` computes it."""
    ending = ledger.ending(cluster)
    if not cluster.ends.order and not ending:
        return None
    missing = lack.used + lack.asked - lack.allowed
    given = partial(gives_back, cluster, ledger, lack.bound)
    return no_capacity.expected_release_s(cluster, missing, given, ending, ENDS)


def gives_back(cluster: Cluster, ledger: QuotaLedger, bound: Bound, job: str) -> Amount:
    """Return by how much the usage that is compared with the bound falls when the job ends."""
    record = cluster.jobs[job]
    path = cluster.tree.branch(record.queue).path
    if not counts(bound, record, path):
        return 0
    if not bound.key[1]:
        return int(record.charge is not None or job in ledger.of_jobs)
    given = use(cluster, ledger, job, bound.key)
    # the topmost queue below the root may keep a part of the amount for itself, and this part is not released
    if bound.rule is Rule.POOL and len(path) > 1:
        top = path[-2]
        beyond = ledger.account(top).total.get(bound.key, 0) - top.quota.kept.get(bound.key, 0)
        return max(0, min(given, beyond))
    return given


def counts(bound: Bound, record: JobRecord, path: Sequence[Branch]) -> bool:
    """Return whether the job is part of the usage that is compared with the bound. `path`: the path from the job's
    queue up to the root. For a job that is known to be in or below the bound's queue, a path that begins at the bound's
    queue is enough."""
    branch = next((branch for branch in path if branch.name == bound.queue), None)
    if branch is None or (is_firm(branch, bound) and record.job.preemptible):
        return False
    if bound.rule in {Rule.USER, Rule.USER_RUNNING}:
        return record.job.user == bound.whose
    if bound.rule is Rule.JOB:
        return record.job.id == bound.whose
    return bound.rule not in OF_SOMEBODY or record.job.group == bound.whose


def largest_jobs(cluster: Cluster, ledger: QuotaLedger, bound: Bound) -> Holders:
    """Return the jobs that use most of what the bound limits. The reason lists them after the child queues that use
    most (see `largest`). Return no jobs if `largest` itself returns jobs."""
    if bound.rule in OF_SOMEBODY or not cluster.tree.branch(bound.queue).children:
        return ()
    jobs = dict.fromkeys((*(job for job, _ in cluster.consumers.largest(bound.key[1], SEARCHED)), *ledger.of_jobs))
    records = ((job, cluster.jobs[job]) for job in islice(jobs, 2 * SEARCHED))
    counted = (job for job, each in records if counts(bound, each, cluster.tree.branch(each.queue).path))
    found = [(job, use(cluster, ledger, job, bound.key)) for job in counted]
    return tuple(sorted((each for each in found if each[1]), key=lambda each: (-each[1], each[0]))[:LARGEST])


def of_flavors(reasons: Mapping[tuple[str, ...], Reason]) -> Reason:
    """Combine the reasons of all assignments of flavors into one. Some reasons can only end if settings or nodes are
    changed. The result has the code of the first reason that can also end in another way; if there is none, the code of
    the first reason. If the reasons have different texts, the new text has one part for each of them."""
    met: dict[str, list[str]] = {}
    for flavors, reason in reasons.items():
        met.setdefault(reason.text, []).append("/".join(dict.fromkeys(flavors)))
    all_ = list(reasons.values())
    if len(met) == 1:
        return all_[0]
    first = next((each for each in all_ if each.code not in NEVER), all_[0])
    parts = [f"on {', '.join(ways)}: {text}" for text, ways in met.items()]
    help_ = any(each.more_nodes_help for each in all_)
    return Reason(code=first.code, text="; ".join(parts), numbers=first.numbers, more_nodes_help=help_)


def largest(cluster: Cluster, ledger: QuotaLedger, bound: Bound) -> Holders:
    """Return the largest consumers of the resource that the bound limits, with their amounts. If the bound's queue has
    children, these are child queues. If it has none, or if the bound is a limit of a user, group or job, these are
    jobs. The grants of this cycle are included."""
    branch = cluster.tree.branch(bound.queue)
    if branch.children and bound.rule not in OF_SOMEBODY:
        accounts = [(child.name, ledger.account(child)) for child in branch.children.values()]
        usages = [(name, each.firm if is_firm(branch, bound) else each.total) for name, each in accounts]
        found = [(f"queue {name!r}", usage.get(bound.key, 0)) for name, usage in usages]
    else:
        found = [(job, use(cluster, ledger, job, bound.key)) for job in candidates(cluster, ledger, bound)]
    return tuple(sorted((each for each in found if each[1]), key=lambda each: (-each[1], each[0]))[:LARGEST])


def candidates(cluster: Cluster, ledger: QuotaLedger, bound: Bound) -> list[str]:
    """Return the jobs that are part of the usage that is compared with the bound: started jobs in the bound's queue and
    in all queues below it. If there are more than `LOOKED_AT`, only the largest consumers of the cluster and the jobs
    that this cycle starts are searched."""
    tree = cluster.tree
    names = {each.name: None for each in tree.branch(bound.queue).below()}
    of_queues = [each for name in names for each in (tree.branches[name].charged, ledger.of_queues.get(name, ()))]
    if sum(map(len, of_queues)) <= LOOKED_AT:
        jobs = list(dict.fromkeys([job for each in of_queues for job in each]))
    else:
        most = (job for job, _ in cluster.consumers.largest(bound.key[1], LOOKED_AT // 10))
        found = dict.fromkeys((*most, *ledger.of_jobs))
        jobs = [job for job in found if cluster.jobs[job].queue in names]
    path = tree.branch(bound.queue).path  # all these jobs are in or below the bound's queue
    return [job for job in jobs if counts(bound, cluster.jobs[job], path)]


def those_that_run(cluster: Cluster, ledger: QuotaLedger, bound: Bound) -> tuple[str, ...]:
    """Return some of the started jobs that the bound counts, the longest running first."""
    jobs = [(job, cluster.jobs[job]) for job in candidates(cluster, ledger, bound)]
    old = [job for _, job in sorted((record.started_s, job) for job, record in jobs if record.charge is not None)]
    new = [job for job, record in jobs if record.charge is None and job in ledger.of_jobs]
    return (*old, *new)[:LARGEST]


def use(cluster: Cluster, ledger: QuotaLedger, job: str, key: Key) -> Amount:
    """Return the amount of the key (flavor, resource) that is charged for the job, with the grants of this cycle."""
    charge, granted = cluster.jobs[job].charge, ledger.of_jobs.get(job, ())
    if charge is None and not granted:
        return 0  # a waiting job has no charge; this check saves time, because most jobs wait
    charges = granted if charge is None else [charge, *granted]
    total: Amount = sum([dict(each.cost).get(key, 0) for each in charges])
    return total
