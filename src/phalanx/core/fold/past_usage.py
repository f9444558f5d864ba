"""Past usage in the book: who is charged when, and the tree of associations that the fair-share formulas read.

A user is charged from the moment a decision gives the pods their nodes until the world says that the pods are gone:
what one holds nobody else can have. What is merely promised is not charged. `core.fold.charging` notes it wherever
holdings change; everything else about usage is arithmetic (`state.usage`).

After a restart the world tells what it remembers (`UsageTold`) and then what runs (`Adopted`). A job that is adopted is
charged since it started, as far as that is not in what was told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isclose

from phalanx.core.order.fair_tree import (
    AccountAssociation,
    AssociationShare,
    Key,
    UserAssociation,
    account_association,
    association_shares,
)
from phalanx.model.amount import Amount
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.usage import DecayedUsage

ROOT = ("", None)  # no queue has an empty name


def backdate(cluster: Cluster, record: JobRecord) -> None:
    """The job was adopted: what it holds, it has held since it started (0: nobody knows, so since now)."""
    if record.started_s > 0:
        job, held = record.job, used_resources(record)
        cluster.usage.backdate(job.queue, job.user, held, record.started_s, cluster.now_s)


def used_resources(record: JobRecord) -> dict[str, Amount]:
    held: dict[str, Amount] = {}
    for slot in record.placements:
        for resource, amount in record.gang.demands[slot.role].costs:
            held[resource] = held.get(resource, 0) + amount
    return held


def fair_shares(cluster: Cluster, policy: Policy, now_s: float) -> dict[Key, AssociationShare]:
    """Of every user and queue, by the policy's formula."""
    return association_shares(associations(cluster.queues, cluster.usage, policy, now_s), policy.fair_share)


def associations(queues: Mapping[str, Queue], usage: DecayedUsage, policy: Policy, now_s: float) -> AccountAssociation:
    """The queue tree as accounts, with who has, or had, jobs in each. A queue without a way to the root, or whose
    parents go round in a circle, is not in it. Jobs that name no queue are those of the default queue."""
    children: dict[str, list[str]] = {}
    for queue in queues.values():
        children.setdefault(queue.parent, []).append(queue.name)
    order = [""]
    for name in order:  # parents first: the list grows while it is read
        order += children.get(name, ())
    built: dict[str, AccountAssociation] = {}
    for name in reversed(order):
        below = [built.pop(child) for child in children.get(name, ())]
        shares = queues[name].weight if name else 1.0
        users = user_associations(queues[name], usage, policy, now_s) if name else ()
        built[name] = account_association((name, None), shares, (*users, *below))
    return built[""]


def user_associations(queue: Queue, usage: DecayedUsage, policy: Policy, now_s: float) -> Iterator[UserAssociation]:
    shares = dict(queue.accounts)
    used = {user: usage.at(meter, now_s) for user, meter in usage.associations.get(queue.name, {}).items()}
    if queue.name == policy.default_queue:
        for user, meter in usage.associations.get("", {}).items():
            used[user] = used.get(user, 0.0) + usage.at(meter, now_s)
    for user in sorted({**shares, **used}):
        yield UserAssociation((queue.name, user), shares.get(user, 1.0), used.get(user, 0.0))


def usage_errors(cluster: Cluster, held: Mapping[str, Mapping[str, Amount]]) -> Iterator[str]:
    """For `report.invariants`: what is noted as held is what the records hold (`held`, by job), and nothing else costs
    anything."""
    of_users: dict[tuple[str, str], dict[str, Amount]] = {}
    jobs: dict[tuple[str, str], int] = {}
    for name, record in cluster.jobs.items():
        whose = (record.job.queue, record.job.user)
        jobs[whose] = jobs.get(whose, 0) + 1
        of_user = of_users.setdefault(whose, {})
        for resource, amount in held[name].items():
            of_user[resource] = of_user.get(resource, 0) + amount
    for queue, user, meter in (usage := cluster.usage):
        if meter.jobs != jobs.get((queue, user), 0):
            yield f"user {user!r} has {jobs.get((queue, user), 0)} jobs in queue {queue!r}, noted are {meter.jobs}"
        truth = of_users.pop((queue, user), {})
        if meter.held != truth:
            yield f"user {user!r} holds {truth} in queue {queue!r}, noted for usage is {meter.held}"
        if not 0 <= meter.usage < inf:
            yield f"the usage of {user!r} in queue {queue!r} is {meter.usage}"
        if (meter.rate or truth) and not isclose(meter.rate, usage.rate(truth)):
            yield f"user {user!r} is charged {meter.rate} a second in queue {queue!r}, due is {usage.rate(truth)}"
    yield from (f"user {user!r} has no meter in queue {queue!r}" for queue, user in of_users)
