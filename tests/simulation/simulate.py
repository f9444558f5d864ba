"""One seeded run: a workload, the disturbances that the seed switches on, and the properties that must hold.

After every fold `tests.invariants` holds. After every cycle no request that fits is left waiting. When the disturbances
have ended and all events are delivered, the cluster state equals the world, and every job that could run has run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from random import Random
from unittest.mock import patch

from phalanx import loop
from phalanx.core.cycle import candidates, known, report
from phalanx.core.cycle.intake import receive
from phalanx.core.cycle.intake.receive import not_eligible
from phalanx.core.fold import fold as folding
from phalanx.core.fold.memory import Decision
from phalanx.core.placement import capacity, gang, packing_order
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.replacement import replacement_gang
from phalanx.core.quota import flavor_assignment
from phalanx.core.quota.ledger import QuotaLedger
from phalanx.model.event import Event, Finished, FlavorSeen, NodeSeen, QueueSeen, Submitted
from phalanx.model.job import Job, Phase, Role
from phalanx.model.node import Node
from phalanx.model.plan import Nominate, Place, Plan, Preempt, Shrink, Start
from phalanx.model.pod import amounts
from phalanx.model.policy import Policy
from phalanx.model.reason import ReasonCode
from phalanx.report import forecast as forecasting
from phalanx.state.cluster import Cluster, JobRecord, is_growth
from phalanx.state.pending.request_class import Kind, Request
from tests.core.brute import gang_fits
from tests.forgetful import decided_without_memory, decisions
from tests.invariants import check_invariants

from . import rules
from .variety import Variety
from .wants import TOPOLOGY, Wants
from .world import World

DISTURBANCES = {
    "late": 0.4,
    "twice": 0.2,
    "pod_refused": 0.05,
    "start_refused": 0.15,
    "node_lost": 0.3,
    "restart": 0.15,
    "jump": 0.1,
    "foreign": 0.5,
    "facts": 0.2,
    "queues": 0.2,
    "growth": 0.5,
    "batch": 0.4,
}
# Reasons by which a job may wait although nodes have capacity. Each of these rules has tests of its own.
RULES = {ReasonCode.BEHIND_HEAD, ReasonCode.RESERVED, ReasonCode.PREEMPTING, ReasonCode.ARRAY_LIMIT}
KEPT = (" reserved: ", "it would delay")  # parts of reasons about several flavors: their texts share one code
QUIET_AFTER_S = 1300.0
STEPS = 3000
AT_ONCE_S = 0.001
WOKEN = 4  # each WOKEN-th step checks that no decision was overlooked; the check costs as much as a cycle
# The share of cycles after which all starts are forecast: while disturbances go on, and after they have ended. Each
# forecast makes one play (simulation) after the first one, because more plays only cost time.
FORETOLD = (0.02, 0.1)
# The most cycles of a play. If a job never starts, a play goes on to its last cycle, because users go on submitting.
# Seed 64 spent 63 of its 68 seconds in these plays. `make fuzz` uses the bound of `forecast`.
PLAYED = forecasting.STEPS if "PHALANX_SEEDS" in os.environ else 50


class Unfair(AssertionError):
    """A job waits although it would fit, or never ran although it could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Conditions of a run that do not depend on its seed. `chances`: the probability of each disturbance, by name.
    `crowded`: queues are at their limits. `unborn`: gangs start before most of their pods exist."""

    chances: Mapping[str, float] = field(default_factory=dict)
    crowded: bool = False
    unborn: bool = False


# Capacity is reserved for pods that are created later. Without these disturbances only the scheduler could give it
# away.
HELD = Weather(unborn=True, chances={"foreign": 0.0, "node_lost": 0.0, "pod_refused": 0.0})


def simulate(seed: int, weather: Weather = Weather()) -> str:
    """Run the seed, and return the hash of all decisions. Raise an error if a check fails."""
    random = Random(seed)
    chances = {name: chance for name, chance in DISTURBANCES.items() if random.random() < 0.6}
    wants, rich = Wants(random), seed % 3 != 0 or weather.crowded
    variety = Variety(random, wants.themes, rich=rich, limited=rich and seed % 7 in {1, 2}, crowded=weather.crowded)
    chances.update(weather.chances)
    run = Run(World(random, chances), wants, variety, unborn=weather.unborn)
    with narrow() if seed % 2 else nullcontext():
        run.build()
        with checked_folds(between=seed % 4 < 2):
            run.play()
    return hashlib.sha256("\n".join(run.world.log).encode()).hexdigest()


@contextmanager
def narrow():
    """Make blocks and chunks small, and explain hardly any reason again. So small clusters run the code that otherwise
    only large clusters run."""
    with (
        patch.object(known, "EXPLAINED", 0),
        patch.object(report, "EXPLAINED", 0),
        patch.object(packing_order, "CHUNK", 2),
        patch.object(capacity, "PAIRS", 4),
        patch.object(capacity, "FEW", 0),
        patch.object(candidates, "FEW", 0),
    ):
        yield


@contextmanager
def checked_folds(*, between: bool):
    """Check `tests.invariants` after every step of the loop. `between`: check after every fold, so also between the
    events and the plan of a step. (A check updates the packing order of nodes. Without a check between the two folds,
    the decision has to update this order itself.)"""
    fold, fold_plan, deciding = folding.fold, folding.fold_plan, loop.decide

    def decided_twice(cluster: Cluster, policy: Policy, now_s: float) -> Decision:
        """Check that a decision follows from the state alone."""
        plan = deciding(cluster, policy, now_s)
        if (other := decided_without_memory(cluster, policy, now_s)) != (true := decisions(plan)):
            raise Unfair(f"decided {true}, and {other} if nothing is remembered")
        return plan

    def fold_checked(cluster: Cluster, news: Iterable[Event]) -> None:
        fold(cluster, news)
        if between:
            check_invariants(cluster)

    def plan_checked(cluster: Cluster, plan: Decision) -> None:
        fold_plan(cluster, plan)
        if not between or plan.actions or plan.memory is not None:  # else nothing was folded after the last check
            check_invariants(cluster)

    with (
        patch.object(loop, "fold", fold_checked),
        patch.object(loop, "fold_plan", plan_checked),
        patch.object(loop, "decide", decided_twice),
    ):
        yield


class Alone:
    """A cluster state with the same nodes and queues, in which one job at a time is alone. Only missing capacity can
    block the job. A job finds the state that the job before it has left."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.book, self.policy, self.now_s, self.known = Cluster(), policy, world.now_s(), dict[str, bool]()
        queues = [replace(queue, gang=True) for queue in world.queues.values()]
        self.news: list[Event] = [*map(NodeSeen, world.nodes.values()), *map(FlavorSeen, world.flavors.values())]
        self.news += map(QueueSeen, queues)

    def starts(self, job: Job) -> bool:
        if job.id not in self.known:
            submitted = Submitted(replace(job, begin_s=None, after=()))
            plan = loop.step(self.book, [*self.news, submitted], self.policy, self.now_s, self)
            self.news = [Finished(job.id)]
            self.known[job.id] = any(isinstance(action, Start) for action in plan.actions)
        return self.known[job.id]

    def apply(self, plan: Plan) -> None:
        """Ignore the plan."""


class Run:
    def __init__(self, world: World, wants: Wants, variety: Variety, *, unborn: bool = False) -> None:
        self.unborn = unborn
        self.world, self.random, self.wants, self.variety = world, world.seed, wants, variety
        self.bounds_changed = False
        self.cluster = Cluster()
        self.quiet = False
        self.jobs: dict[str, Job] = {}
        self.wake_s: float | None = None
        self.steps = 0

    def play(self) -> None:
        for _ in range(STEPS):
            if not self.world.advance():
                break
            if not self.quiet:
                self.disturb()
            if self.world.chance("batch"):
                continue  # the loop is busy: the next events are folded together with these
            if not self.world.silent() or self.wake_is_due():
                self.step(self.world.events())
        else:
            raise Unfair(f"no end after {STEPS} steps: {[*self.world.jobs]}")
        self.settle()

    def wake_is_due(self) -> bool:
        return self.wake_s is not None and self.wake_s <= self.world.now_s()

    def step(self, events: list[Event]) -> None:
        plan = loop.step(self.cluster, events, self.variety.policy, self.world.now_s(), self.world)
        self.wake_s = plan.wake_s
        if self.wake_s is not None and self.wake_s > self.world.now_s():
            self.world.later(self.wake_s - self.world.now_s() + 0.001, lambda: None)
        if wrong := list(rules.judge(self.cluster, plan)):
            raise Unfair("; ".join(wrong))
        self.nobody_exceeds_its_bounds()
        if self.wake_s is None or self.wake_s > self.world.now_s() + AT_ONCE_S:  # else the next cycle follows at once
            self.nothing_that_fits_waits()
            self.no_room_is_true()
            self.steps += 1
            if self.steps % WOKEN == 0 or self.settled():
                self.nobody_is_overlooked(plan)
            if self.variety.limited and self.random.random() < FORETOLD[self.settled()]:
                self.starts_are_foretold()

    # What happens

    def build(self) -> None:
        world, random = self.world, self.random
        world.queues = {queue.name: queue for queue in self.variety.queues}
        world.flavors = {flavor.name: flavor for flavor in self.variety.flavors}
        world.reservations = {each.name: each for each in self.variety.reservations}
        folding.fold(self.cluster, world.listed())
        for index in range(random.randint(1, 5)):
            world.add_node(self.wants.a_node(f"n{index}"))
        self.alone = Alone(world, self.variety.policy)
        for index in range(random.choice([3, 6, 9, 12, 25])):
            run_s = random.uniform(1, 120)
            job = self.a_job(index, run_s)
            if self.unborn and job.queue != "loose" and random.random() < 0.7:
                world.unborn.add(job.id)
            self.jobs[job.id] = job
            if self.is_plain(job):
                self.starts_if_it_fits(job)
            world.later(random.uniform(0, 200), lambda job=job, run_s=run_s: world.submit(job, run_s))
        world.later(QUIET_AFTER_S - world.clock_s, self.make_quiet)

    def starts_if_it_fits(self, job: Job) -> None:
        """Check that a job that is alone in the world starts if and only if brute force finds a placement. The check
        needs a job for which amounts alone decide."""
        starts, fits = self.alone.starts(job), gang_fits_empty(list(self.world.nodes.values()), job)
        if starts != fits and (starts or not self.variety.rich):
            raise Unfair(f"{job.id} alone in the world: starts is {starts}")

    def could_run(self, name: str) -> bool:
        """Return whether the job would start if it were alone in the world, and the jobs that it depends on could run
        too. Return False for a job with a deadline, a reservation or a singleton name, because other rules may block
        the job for ever. The function is called only for jobs that have not run."""
        job = self.jobs[name]
        may = job.deadline_s is None and not job.reservation and not job.singleton
        return may and self.alone.starts(job) and all(self.could_run(each.job) for each in job.after)

    def is_plain(self, job: Job) -> bool:
        """Return whether amounts alone decide the placement of the job."""
        shapes = [role.shape for role in job.roles]
        apart = any(each.share or each.away or each.near or each.spread or each.ports for each in shapes)
        close = job.closeness or job.groups or any(role.closeness for role in job.roles)
        return not apart and not close and not self.variety.flavors

    def a_job(self, index: int, run_s: float) -> Job:
        random = self.random
        loose = random.random() < 0.2
        # If pods start one by one, jobs that need several pods can block each other for ever. So one pod is the minimum
        # of a job in the queue `loose`.
        count = 1 if loose else random.choice([1, 1, 1, 2, 3])
        roles = tuple(self.a_role(f"r{at}", loose=loose) for at in range(count))
        roles, options = (roles, {}) if loose else self.wants.gang_options(roles)
        return Job(
            id=f"j{index}",
            queue="loose" if loose else self.variety.queue_of(),
            roles=roles,
            priority=random.choice([0, 0, 0, 5]),
            submitted_s=float(index),
            **options,
            **self.variety.job_options(index, run_s),
        )

    def a_role(self, name: str, *, loose: bool) -> Role:
        count = self.random.randint(1, 4)
        least = 1 if loose else self.random.randint(1, count)
        return Role(name=name, count=count, minimum=least, shape=self.wants.a_shape())

    def disturb(self) -> None:
        world, random = self.world, self.random
        if random.random() > 0.15:
            return
        if world.nodes and world.chance("node_lost"):
            name = random.choice(sorted(world.nodes))
            world.remove_node(name)
            world.later(random.uniform(5, 60), lambda: self.bring_back(name))
        if world.nodes and world.chance("foreign"):
            pod, node = f"f{random.randint(0, 5)}", random.choice(sorted(world.nodes))
            cpu = random.choice([500, 1000, 9000 if random.random() < 0.2 else 2000])
            world.vacate(pod)
            world.occupy(pod, node, amounts({"cpu": cpu, "memory": 1, "pods": 1}))
        if world.foreign and world.chance("foreign"):
            world.vacate(random.choice(sorted(world.foreign)))
        if world.nodes and world.chance("facts"):
            node = world.nodes[random.choice(sorted(world.nodes))]
            world.add_node(changed(node, unschedulable=random.random() < 0.5, ready=random.random() < 0.7))
        if world.jobs and world.chance("facts"):
            world.withdraw(random.choice(sorted(world.jobs)))
        if self.variety.rich and world.chance("queues"):
            queue = world.queues[random.choice(sorted(world.queues))]
            if queue.gang:
                self.bounds_changed = True
                world.change_queue(self.variety.disturbed(queue))
        if world.chance("jump"):
            world.jump_s += random.uniform(-40, 40)
        if world.chance("restart"):
            self.restart()

    def restart(self) -> None:
        self.cluster = Cluster()
        self.step(self.world.listed())

    def bring_back(self, name: str) -> None:
        if name not in self.world.nodes:
            self.world.add_node(changed(self.world.all_nodes[name], unschedulable=False, ready=True))

    # What must hold

    def make_quiet(self) -> None:
        """End the disturbances: all nodes exist and are ready, and foreign pods are deleted."""
        self.quiet = True
        self.world.chances.clear()
        for name, node in sorted(self.world.all_nodes.items()):
            well = changed(node, unschedulable=False, ready=True)
            if self.world.nodes.get(name) != well:
                self.world.add_node(well)
        for pod in sorted(self.world.foreign):
            self.world.vacate(pod)
        for queue in self.variety.queues:
            if self.world.queues[queue.name] != queue:
                self.world.change_queue(queue)
        self.world.later(100.0, lambda: None)

    def nobody_exceeds_its_bounds(self) -> None:
        """Check that no queue exceeds its limit. The check is left out once a limit was changed."""
        for queue in () if self.bounds_changed else self.variety.queues:
            branch = self.cluster.tree.branch(queue.name)
            for key, allowed in branch.quota.limit.items():
                if branch.account.total.get(key, 0) > allowed:
                    raise Unfair(f"{queue.name} has {branch.account.total} and may have {branch.quota.limit}")

    def nothing_that_fits_waits(self) -> None:
        """Check that no waiting job of one role, and no open slot, would fit. Queued jobs of several roles are left
        out, because a search within a budget may miss their placement."""
        waiting = [record for record in self.cluster.jobs.values() if self.may_start(record)]
        wanting = [record for record in self.cluster.jobs.values() if record.open and self.may_place(record)]
        if not waiting and not wanting:
            return
        draft, ledger = Draft(self.cluster.columns, (TOPOLOGY,)), QuotaLedger(self.cluster.tree)
        for record in waiting:
            if self.fits(draft, ledger, record, Request(record.job.id)):
                raise Unfair(f"{record.job.id} waits and would fit: {self.cluster.reason(record.job.id)}")
        for record in wanting:
            for slot in record.open:
                if not is_growth(record, slot) and self.fits(draft, ledger, record, Request(record.job.id, slot)):
                    raise Unfair(f"slot {slot} of {record.job.id} waits and would fit")

    def no_room_is_true(self) -> None:
        """Check reasons about missing capacity, if the job has one role and amounts alone decide: count the pods that
        fit, node by node."""
        for record in self.cluster.jobs.values():
            reason, job = self.cluster.reason(record.job.id), record.job
            if (
                record.phase is not Phase.QUEUED
                or reason is None
                or reason.code not in {ReasonCode.NO_ROOM, ReasonCode.NO_DOMAIN}
            ):
                continue
            if len(job.roles) > 1 or not self.is_counted(job):
                continue
            if (fits := rules.room_for(self.cluster, job.roles[0], job.closeness)) >= job.roles[0].minimum:
                raise Unfair(f"{job.id} is told {reason}, and {fits} of its pods fit")

    def is_counted(self, job: Job) -> bool:
        """Return whether amounts, and at most one required domain, decide the placement of the job."""
        near = job.closeness
        simple = near is None or (near.required and not near.slices)
        return simple and not self.variety.reservations and self.is_plain(replace(job, closeness=None))

    def nobody_is_overlooked(self, plan: Plan) -> None:
        """Check that a second decision changes nothing. After a plan with actions, three changes are allowed in the
        next cycle. The plan may have changed the reservations, so a job with the reason `Reserved` may start. A failed
        search for victims may succeed. A job may be nominated to capacity that is being released, because no other job
        gets this capacity before the next cycle."""
        found = decided_without_memory(self.cluster, self.variety.policy, self.world.now_s())
        if any(isinstance(each, (Start, Place, Preempt, Shrink, Nominate)) for each in plan.actions):
            if any(isinstance(each, (Preempt, Shrink)) for each in found):
                return
            reasons = {each: self.cluster.reason(each.job) for each in found}
            found = [each for each, why in reasons.items() if why is None or why.code is not ReasonCode.RESERVED]
            found = [each for each in found if not isinstance(each, Nominate)]
        if found:
            raise Unfair(f"this was left for the next cycle, and that was not to follow at once: {found}")

    def starts_are_foretold(self) -> None:
        """Check the forecast. All running jobs end. So, without other faults, every job that could run alone must have
        an expected start."""
        cluster, now_s = self.cluster, self.world.now_s()
        waiting = [job for job, record in cluster.jobs.items() if record.phase is Phase.QUEUED]
        before = [(job, record.phase, dict(record.placements)) for job, record in cluster.jobs.items()]
        with patch.object(forecasting, "STEPS", PLAYED):
            found = forecasting.forecast(cluster, self.variety.policy, now_s, waiting, plays=1)
        if early := [job for job, each in found.items() if each.start_s < min(now_s, cluster.now_s)]:
            raise Unfair(f"foretold for the past: {early}")
        if before != [(job, record.phase, dict(record.placements)) for job, record in cluster.jobs.items()]:
            raise Unfair("asking for a forecast changed the book")
        missing = [job for job in waiting if job not in found and self.could_run(job)]
        if self.settled() and (missing := list(filter(self.is_surely_placed, missing))):
            found = forecasting.forecast(cluster, self.variety.policy, now_s, missing, plays=1)
        if self.settled() and (missing := [job for job in missing if job not in found]):
            raise Unfair(f"nobody knows when these start, though all that runs ends: {missing}")

    def is_surely_placed(self, name: str) -> bool:
        """Return whether the scheduler surely finds a placement for the job if one exists. It may find none for several
        roles with constraints, because one role may take the nodes that another role needs."""
        job = self.world.jobs[name].job
        return len(job.roles) == 1 or self.is_plain(job)

    def settled(self) -> bool:
        """Return whether the disturbances are over, and all events about them are delivered."""
        return self.world.clock_s > QUIET_AFTER_S + 50

    def may_place(self, record: JobRecord) -> bool:
        """Return whether an open slot of the job must be placed if it fits. A slot may have to wait for earlier
        requests or for a reservation. A job has one reason for all its pods, so with several kinds of open slots the
        reason of some slots is not visible."""
        sorts = {(slot.role, is_growth(record, slot)) for slot in record.open}
        if self.variety.rich and (len(sorts) > 1 or self.variety.reservations):
            return False
        return record.reason is None or record.reason.code is not ReasonCode.RESERVED

    def fits(self, draft: Draft, ledger: QuotaLedger, record: JobRecord, request: Request) -> bool:
        """Return whether the quota of the job's queue allows the request, and nodes have capacity for it."""
        slots = None if request.slot is None else replacement_gang(self.cluster, (TOPOLOGY,), record, request.slot)
        branch = self.cluster.tree.branches[record.queue]
        key, _ = receive.request_class_of(self.cluster, branch, record, request, slots)
        if key.kind == Kind.REPLACEMENT:
            return not isinstance(gang.place(draft, key.gang), gang.PlacementShortfall)
        offers = flavor_assignment.flavor_assignments(self.cluster, ledger, key, record)
        return any(
            offer.short is None and not isinstance(gang.place(draft, offer.gang), gang.PlacementShortfall)
            for offer in offers
        )

    def may_start(self, record: JobRecord) -> bool:
        """Return whether only missing capacity or quota may keep the job waiting."""
        queue = self.cluster.queues.get(record.job.queue or "default")
        rests = record.not_before_s > self.world.now_s()
        if record.phase is not Phase.QUEUED or queue is None or rests or len(record.job.roles) != 1 or record.nominated:
            return False
        reason = self.cluster.reason(record.job.id)
        if reason is not None and reason.code is ReasonCode.DEADLINE and self.world.jump_s:
            return False  # the job missed its deadline on a clock that was set back later
        if not queue.gang or (
            reason is not None and (reason.code in RULES or any(each in reason.text for each in KEPT))
        ):
            return False
        branch = self.cluster.tree.branches[queue.name]
        return not_eligible(self.cluster, branch, record, self.world.now_s(), {}) is None

    def settle(self) -> None:
        left = {job for job in self.world.jobs if self.could_run(job) and not self.kept_for_ever(job)}
        if left:
            raise Unfair(f"never ran, though they could: {sorted(left)}")
        for name in self.world.nodes:
            row = self.cluster.columns.row_of[name]
            book = {resource: free for resource, free in self.cluster.columns.free_of(row).items() if free}
            true = {resource: free for resource, free in self.world.free(name).items() if free}
            if book != true:
                raise Unfair(f"the book says {book} is free on {name}, the world {true}")

    def kept_for_ever(self, job: str) -> bool:
        """Return whether the job may wait for ever without an error. It is behind the head of a strict queue that can
        never start, or it depends on a job that can never start. Or as many started jobs of its array as may run at
        once never find a node for their pods."""
        reason, enough = self.cluster.reason(job), 1
        match reason and reason.code:
            case ReasonCode.BEHIND_HEAD:
                before = [reason.numbers["head"]]
            case ReasonCode.DEPENDENCY:
                before = reason.numbers["jobs"]
            case ReasonCode.ARRAY_LIMIT:
                own, enough = self.jobs[job], reason.numbers["cap"]
                before = [
                    name
                    for name, other in self.world.jobs.items()
                    if (other.job.user, other.job.array) == (own.user, own.array) and other.phase is not Phase.QUEUED
                ]
            case _:
                return False
        kept = [each in self.world.jobs and (not self.could_run(each) or self.kept_for_ever(each)) for each in before]
        return sum(kept) >= enough


def gang_fits_empty(nodes: list[Node], job: Job) -> bool:
    return gang_fits(nodes, {node.name: dict(node.allocatable) for node in nodes}, job.roles)


def changed(node: Node, *, unschedulable: bool, ready: bool) -> Node:
    return replace(node, unschedulable=unschedulable, ready=ready)
