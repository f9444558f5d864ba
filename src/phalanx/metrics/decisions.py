"""What was decided and how long it took, counted while it goes by.

`Measured` is a world around another, as the recorder is: the loop does not know that it is watched, and the core not
at all. What it costs follows the actions and events of a cycle; it never looks at who waits.

Queues that are not there (a label may name anything) are counted under an empty name, so that the number of series is
bounded by the queues that administrators made.
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


class World(Protocol):
    """`loop.World`."""

    def events(self) -> Sequence[Event]: ...
    def apply(self, plan: Plan) -> None: ...
    async def wait(self, timeout_s: float | None) -> None: ...


class Decisions:
    """Counts since the process began to lead. `made`: (action, queue); `pods` given a node, by queue; starts that were
    `refused`, by the code of their reason; jobs that `ended`, by (outcome, queue); how long started jobs had waited,
    by queue; how long each phase of a cycle took."""

    def __init__(self) -> None:
        self.made: Counter[tuple[str, str]] = Counter()
        self.pods: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.ended: Counter[tuple[str, str]] = Counter()
        self.waited_s: dict[str, Spread] = {}
        self.cycle_s = {phase: Spread(CYCLE_BOUNDS_S) for phase in PHASES}

    def heard(self, cluster: Cluster, events: Sequence[Event]) -> None:
        """Before they are folded in."""
        for event in events:
            match event:
                case Finished():
                    if event.job in cluster.jobs:
                        self.ended[str(event.outcome), queue_of(cluster, event.job)] += 1
                case Refused():
                    self.refused[str(event.reason.code)] += 1

    def planned(self, cluster: Cluster, actions: Sequence[Action]) -> None:
        """After they were folded in."""
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
    queue = cluster.queue_of(record.job) if record is not None else ""
    return queue if queue in cluster.queues else ""


class Measured:
    """`world`, counted into `decisions`. `seconds` reads a clock that only goes forward."""

    def __init__(
        self, world: World, cluster: Cluster, decisions: Decisions, seconds: Callable[[], float] = time.perf_counter
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
