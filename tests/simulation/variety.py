"""Draw the queues, the policy and the job options of a seed: trees with quotas, orders, limits and preemption, and jobs
with users, time limits, dependencies and arrays. A third of the seeds has none of these: it has flat queues without
quotas, and greedy backfill."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random
from typing import Any

from phalanx.model.job import Dependency, DependencyType, GangSize
from phalanx.model.node import Flavor, Reservation
from phalanx.model.pod import Toleration
from phalanx.model.policy import Backfill, BackfillOrder, Policy, PriorityWeights, ScoringStrategy
from phalanx.model.queue import (
    BorrowingPolicy,
    FlavorFungibility,
    Limits,
    Queue,
    QueueOrder,
    QueuePreemption,
    QueueState,
    Quota,
    ReclaimFloor,
    ReclaimWithinCohort,
    WithinQueue,
)

from .wants import TOPOLOGY

USERS = ("ann", "bob", "cem")
CPU = 1000
AFTER = (DependencyType.ANY, DependencyType.ANY, DependencyType.OK, DependencyType.START)


FLAVORS = (
    Flavor(name="solid", labels=(("class", "solid"),)),
    Flavor(name="spot", labels=(("class", "spot"),), tolerations=(Toleration(key="spot", operator="Exists"),)),
)


class Variety:
    """`rich`: True for settings other than the plainest. `limited`: every job has a time limit. `themes`: see `wants`.
    `crowded`: every queue has a low limit and may preempt."""

    def __init__(
        self, random: Random, themes: Collection[str], *, rich: bool, limited: bool, crowded: bool = False
    ) -> None:
        self.random, self.rich, self.limited, self.themes, self.crowded = random, rich, limited, themes, crowded
        self.policy = self.a_policy() if rich else Policy(backfill=Backfill.GREEDY, topologies=(TOPOLOGY,))
        self.flavors = FLAVORS if "flavors" in themes else ()
        self.queues = self.a_tree() if rich else [Queue(name="default"), Queue(name="loose", gang=False)]
        self.reservations = self.some_reservations() if rich and "reservations" in themes else []
        self.leaves = [queue.name for queue in self.queues if queue.gang and queue.name != "default"]

    def a_policy(self) -> Policy:
        random = self.random
        backfill = random.choice(list(Backfill))
        return Policy(
            backfill=backfill,
            backfill_order=random.choice(list(BackfillOrder)),
            score=random.choice([ScoringStrategy.PACK, ScoringStrategy.PACK, *ScoringStrategy]),
            topologies=(TOPOLOGY,),
            half_life_s=random.choice([0.0, 100.0, 10_000.0]),
            factors=PriorityWeights(age=1000, size=100, fair_share=5000, max_age_s=500),
        )

    def a_tree(self) -> list[Queue]:
        """Return `default` and `loose` at the top of the tree, and one or two teams with or without child queues."""
        random = self.random
        queues = [Queue(name="default"), Queue(name="loose", gang=False)]
        for team in ("red", "blue")[: random.randint(1, 2)]:
            children = [f"{team}-{at}" for at in range(random.choice([0, 0, 2, 3]))]
            guarantees = {child: random.choice([0, 0, CPU, 2 * CPU]) for child in children}
            own = sum(guarantees.values()) + random.choice([0, CPU, 3 * CPU])
            queues.append(self.a_queue(team, "", own))
            queues += [self.a_queue(child, team, guarantees[child]) for child in children]
        queues[0] = replace(queues[0], order=self.an_order(), preemption=self.a_preemption())
        return queues

    def a_queue(self, name: str, parent: str, guaranteed: int) -> Queue:
        random = self.random
        limit = guaranteed + random.choice([4 * CPU, 8 * CPU]) if random.random() < 0.3 else None
        if self.crowded:
            limit = guaranteed + random.choice([CPU, 2 * CPU])
        quota = Quota(
            guaranteed=(("cpu", guaranteed),) if guaranteed else (),
            limit=(("cpu", limit),) if limit is not None else (),
            lend=(("cpu", random.randint(0, guaranteed)),) if guaranteed and random.random() < 0.3 else (),
        )
        return Queue(
            name=name,
            parent=parent,
            quotas=self.of_flavors(quota) if self.flavors else (quota,),
            fungibility=self.a_fungibility() if self.flavors else FlavorFungibility(),
            weight=random.choice([0.0, 1.0, 1.0, 2.0]),
            order=self.an_order(),
            strict=random.random() < 0.15,
            borrow=random.choice([BorrowingPolicy.ALL, BorrowingPolicy.ALL, BorrowingPolicy.PREEMPTIBLE]),
            preemption=self.a_preemption(),
            total=Limits(running=random.choice([None, None, 3])),
            per_user=Limits(running=random.choice([None, None, 2])),
            per_job=self.a_limit_per_job(),
        )

    def an_order(self) -> QueueOrder:
        """Draw an order. A separate generator draws the order `usage`, so that the other draws of a seed do not
        change."""
        aside = Random()
        aside.setstate(self.random.getstate())
        drawn = self.random.choice([QueueOrder.PRIORITY, QueueOrder.FIFO, QueueOrder.FAIR, QueueOrder.MULTIFACTOR])
        return QueueOrder.USAGE if aside.random() < 0.15 else drawn

    def a_limit_per_job(self) -> Limits:
        """Draw from a separate generator, so that the other draws of a seed do not change."""
        aside = Random()
        aside.setstate(self.random.getstate())
        return Limits(resources=(("cpu", aside.choice([3, 5, 8]) * CPU),) if aside.random() < 0.15 else ())

    def a_fungibility(self) -> FlavorFungibility:
        borrow, preempt, prefer = (self.random.random() < 0.5 for _ in range(3))
        return FlavorFungibility(borrow_before_next=borrow, preempt_before_next=preempt, prefer_preemption=prefer)

    def of_flavors(self, quota: Quota) -> tuple[Quota, ...]:
        """Return the quota for one flavor, and a quota for the other flavor, which may have a limit or a guarantee of
        0."""
        first, other = self.random.sample(self.flavors, 2)
        bounds = self.random.choice([{}, {"limit": (("cpu", 2 * CPU),)}, {"guaranteed": (("cpu", 0),)}])
        return replace(quota, flavor=first.name), Quota(flavor=other.name, **bounds)

    def some_reservations(self) -> list[Reservation]:
        """Draw one or two reservations near the end of the disturbances. Each is for a user, a group, a queue, or for
        no user."""
        random, found = self.random, []
        for at in range(random.randint(1, 2)):
            start_s = 1000.0 + random.uniform(0, 200)
            whose = random.choice([{}, {"users": ("ann",)}, {"groups": ("x",)}, {"queues": (self.queues[-1].name,)}])
            nodes = tuple(f"n{random.randint(0, 3)}" for _ in range(random.randint(1, 2)))
            end_s, magnetic = start_s + random.uniform(10, 150), random.random() < 0.5
            found.append(
                Reservation(name=f"res{at}", start_s=start_s, end_s=end_s, nodes=nodes, magnetic=magnetic, **whose)
            )
        return found

    def a_reclaim(self, least: int) -> ReclaimWithinCohort:
        """Draw the jobs of other queues that a queue may preempt. `least`: 1 leaves out `NEVER`. A separate generator
        draws `LOWER_OR_EQUAL`, so that the other draws of a seed do not change."""
        rules = [ReclaimWithinCohort.NEVER, ReclaimWithinCohort.LOWER, ReclaimWithinCohort.ANY]
        aside = Random()
        aside.setstate(self.random.getstate())
        drawn = self.random.choice(rules[least:])
        return ReclaimWithinCohort.LOWER_OR_EQUAL if aside.random() < 0.1 else drawn

    def a_preemption(self) -> QueuePreemption:
        random, least = self.random, int(self.crowded)
        return QueuePreemption(
            within=random.choice(list(WithinQueue)[least:]),
            reclaim=self.a_reclaim(least),
            down_to=random.choice(list(ReclaimFloor)),
            borrowing=random.random() < 0.3,
            min_run_s=random.choice([0.0, 0.0, 30.0]),
            delay_s=random.choice([0.0, 0.0, 20.0]),
            hourly_budget=random.choice([None, None, 2]),
            consolidate=random.random() < 0.3,
        )

    def queue_of(self) -> str:
        return self.random.choice([*self.leaves, "default", ""]) if self.rich else self.random.choice(["default", ""])

    def job_options(self, index: int, run_s: float) -> dict[str, Any]:
        """Return further options of a job. `run_s`: its real run time."""
        random = self.random
        if not self.rich:
            return {}
        options: dict[str, Any] = {"user": random.choice(USERS), "group": random.choice("xy")}
        if self.limited or random.random() < 0.6:
            options["limit_s"] = run_s * random.choice([1.0, 1.5, 4.0])
        if random.random() < 0.15:
            options["begin_s"] = 1000.0 + random.uniform(0, 300)
        if index and random.random() < 0.1:
            options["after"] = (Dependency(job=f"j{random.randrange(index)}", after=random.choice(AFTER)),)
        if random.random() < 0.1:
            options |= {"array": "sweep", "array_cap": 2}
        if random.random() < 0.05:
            options["singleton"] = "nightly"
        if random.random() < 0.05:
            options["deadline_s"] = 1000.0 + random.uniform(50, 400)
        if self.reservations and random.random() < 0.1:
            options["reservation"] = random.choice(self.reservations).name
        options["preemptible"] = random.random() < 0.8
        options["preempts"] = random.random() < 0.9
        options["size"] = random.choice([GangSize.ELASTIC, GangSize.ELASTIC, GangSize.FIXED_AT_START])
        return options

    def disturbed(self, queue: Queue) -> Queue:
        """Return the queue held or open, with a lower limit, or with another limit on running jobs."""
        quota = queue.quotas[0] if queue.quotas else Quota()
        match self.random.randrange(3):
            case 0:
                return replace(queue, state=self.random.choice([QueueState.OPEN, QueueState.HELD]))
            case 1:
                return replace(queue, quotas=(replace(quota, guaranteed=(), lend=(), limit=(("cpu", 2 * CPU),)),))
            case _:
                return replace(queue, total=Limits(running=self.random.choice([None, 1, 5])))
