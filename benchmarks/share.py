"""What shares cost in a cycle: Fair Tree over many users, priorities of many lines, and dominant shares of many queues.

One JSON object a line: milliseconds for all factors (found at most once in a cycle, if a job is ranked by them),
and microseconds per job ranked and per share asked.

    python benchmarks/share.py [--users 1000 10000 50000]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from functools import partial

from phalanx.core.fold.fold import fold
from phalanx.core.order.associations import fair_shares
from phalanx.core.order.multifactor import MultifactorPriority
from phalanx.core.quota import shares as share
from phalanx.model.event import NodeSeen, QueueSeen, Submitted, UsageTold
from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.pod import Shape
from phalanx.model.policy import FairShareFormula, Policy, PriorityWeights
from phalanx.model.queue import Queue, QueueOrder
from phalanx.state.cluster import Cluster
from phalanx.state.queues.tree import QueueTree

USERS_PER_QUEUE = 50
JOBS = 2000


def timed(what: Callable[[], object]) -> float:
    """Seconds, the best of five."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        what()
        best = min(best, time.perf_counter() - start)
    return best


def book(users: int) -> Cluster:
    """Queues of 50 users in departments of ten queues, with some past and 2,000 waiting jobs."""
    seed, cluster = random.Random(7), Cluster()
    queues = max(1, users // USERS_PER_QUEUE)
    news = [QueueSeen(Queue(name=f"d{at}", weight=seed.randint(1, 9))) for at in range(0, queues, 10)]
    parents = {at: f"d{at - at % 10}" for at in range(queues)}
    news += [
        QueueSeen(Queue(name=f"q{at}", parent=parent, order=QueueOrder.MULTIFACTOR, weight=seed.randint(1, 9)))
        for at, parent in parents.items()
    ]
    fold(cluster, news)
    fold(cluster, [NodeSeen(Node(name=f"n{at}", allocatable=(("cpu", 64_000), ("pods", 110)))) for at in range(1000)])
    past = (UsageTold(f"q{user % queues}", f"u{user}", seed.uniform(0, 1e6), 0.0) for user in range(users))
    fold(cluster, past)
    shapes = [Role(name="w", count=4, minimum=4, shape=Shape(requests=(("cpu", cpu),))) for cpu in range(1000, 9000, 8)]
    waiting = (
        Job(id=f"j{at}", queue=f"q{at % queues}", user=f"u{at % users}", roles=(seed.choice(shapes),))
        for at in range(JOBS)
    )
    fold(cluster, (Submitted(job) for job in waiting))
    return cluster


def measure(users: int) -> dict[str, object]:
    cluster, factors = book(users), PriorityWeights(age=1000, size=500, fair_share=100_000)
    found: dict[str, object] = {"benchmark": "share", "users": users, "queues": len(cluster.queues)}
    for formula in FairShareFormula:
        policy = Policy(factors=factors, fair_share=formula)
        seconds = timed(partial(fair_shares, cluster, policy, 10.0))
        found[f"{formula}_ms"] = round(seconds * 1e3, 1)
    priorities = MultifactorPriority(cluster, Policy(factors=factors), 10.0)
    records = list(cluster.jobs.values())
    ranked = timed(lambda: [priorities.of(record) for record in records])
    found["rank_us"] = round(ranked / len(records) * 1e6, 2)
    tree = QueueTree()
    tree.build(cluster.queues, ())
    tree.pool = {("", "cpu"): 64_000_000, ("", "pods"): 110_000}
    extra = ((("", "cpu"), 4000), (("", "pods"), 4))
    branches = list(tree.branches.values())
    shares = timed(lambda: [share.dominant_share(branch, branch.account, tree.pool, extra) for branch in branches])
    found["share_us"] = round(shares / len(branches) * 1e6, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, nargs="*", default=[1000, 10_000, 50_000])
    for users in parser.parse_args().users:
        print(json.dumps(measure(users)), flush=True)


if __name__ == "__main__":
    main()
