"""Count the scheduler's decisions, and measure the duration of each cycle.

`Measured` wraps the world, the interface through which the scheduling loop gets events and carries out plans. So
neither the loop nor the core contains code for metrics. The cost of counting grows with the actions and events of a
cycle, not with the number of pending jobs.

A job whose label names a missing queue is counted under the empty queue name. So the number of series is limited by the
number of queues, which only administrators create.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from phalanx.client.tally import Spread
from phalanx.model.event import Event, Finished, Refused
from phalanx.model.plan import ACTION_NAMES, Action, Place, Plan, Start
from phalanx.state.cluster import Cluster

CYCLE_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
WAIT_BOUNDS_S = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0)
PHASES = ("observe", "decide", "apply")


class MeasuredWorld(Protocol):
    """A copy of the protocol `loop.World`, because this package may not import `loop`."""

    def events(self) -> Sequence[Event]: ...
    def apply(self, plan: Plan) -> None: ...
    async def wait(self, timeout_s: float | None) -> None: ...


class Decisions:
    """The counts of decisions since the process became the leader.

    `made`: the number of decisions by (action, queue). `pods`: the number of pods that got a node, by queue. `refused`:
    the number of starts that the API server or the simulator refused, by reason code. `ended`: the number of ended jobs
    by (outcome, queue). `waited_s`: the wait of started jobs, by queue.
    `cycle_s`: the time of each phase of a cycle."""

    def __init__(self) -> None:
        self.made: Counter[tuple[str, str]] = Counter()
        self.pods: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.ended: Counter[tuple[str, str]] = Counter()
        self.waited_s: dict[str, Spread] = {}
        self.cycle_s = {phase: Spread(CYCLE_BOUNDS_S) for phase in PHASES}

    def heard(self, cluster: Cluster, events: Sequence[Event]) -> None:
        """Count the events of a cycle. It must be called before the events change the cluster state, because the events
        remove ended jobs from the state."""
        for event in events:
            match event:
                case Finished():
                    if event.job in cluster.jobs:
                        self.ended[str(event.outcome), queue_of(cluster, event.job)] += 1
                case Refused():
                    self.refused[str(event.reason.code)] += 1

    def planned(self, cluster: Cluster, actions: Sequence[Action]) -> None:
        """Count the actions of a plan. It must be called after the plan has changed the cluster state."""
        for action in actions:
            queue = queue_of(cluster, action.job)
            self.made[ACTION_NAMES[type(action)].lower(), queue] += 1
            if isinstance(action, Start | Place):
                self.pods[queue] += len(action.placements)
            if isinstance(action, Start):
                self._started(cluster, queue, action)

    def _started(self, cluster: Cluster, queue: str, start: Start) -> None:
        record = cluster.jobs.get(start.job)
        if record is not None:
            if queue not in self.waited_s:
                self.waited_s[queue] = Spread(WAIT_BOUNDS_S)
            self.waited_s[queue].add(max(0.0, start.at_s - record.job.submitted_s))


def queue_of(cluster: Cluster, job: str) -> str:
    record = cluster.jobs.get(job)
    queue = record.queue if record is not None else ""
    return queue if queue in cluster.queues else ""


class Measured:
    """A wrapper of `world` that counts its events and plans in `decisions`. `seconds`: a function that returns the time
    of a monotonic clock."""

    def __init__(
        self,
        world: MeasuredWorld,
        cluster: Cluster,
        decisions: Decisions,
        seconds: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._world, self._cluster, self._decisions, self._seconds = world, cluster, decisions, seconds
        self._told_s = 0.0

    def events(self) -> Sequence[Event]:
        began_s = self._seconds()
        found = self._world.events()
        self._told_s = self._seconds()
        self._decisions.heard(self._cluster, found)
        self._decisions.cycle_s["observe"].add(self._told_s - began_s)
        return found

    def apply(self, plan: Plan) -> None:
        decided_s = self._seconds()
        self._world.apply(plan)
        applied_s = self._seconds()
        self._decisions.planned(self._cluster, plan.actions)
        self._decisions.cycle_s["decide"].add(decided_s - self._told_s)
        self._decisions.cycle_s["apply"].add(applied_s - decided_s)

    async def wait(self, timeout_s: float | None) -> None:
        await self._world.wait(timeout_s)
