"""Random faults of a simulated cluster, which depend on a seed.

A random number depends only on the seed, the kind of fault, the subject of the fault (a node or a job), and how many
numbers were drawn before for the same kind and subject. So under every policy the same nodes fail at the same times,
and the same jobs are stragglers (run longer than in the trace). This makes it possible to compare policies under equal
faults. All distributions are computed from numbers of `random.Random` with a text as its seed, because such numbers are
the same in every version of Python.

`UndeliveredEvents` passes the events to the scheduler. If there are faults, some events arrive late, but events about
the same subject always arrive in the order in which they happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, log
from random import Random
from typing import Any

from phalanx.model.event import Event, NodeSeen
from phalanx.model.node import Node
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The rates of faults. Times are in seconds; a rate or time of 0 switches the fault off.

    `node_mtbf_s`, `node_repair_s`: the mean time until a node fails, and the mean time until it is repaired. The times
    themselves are exponentially distributed.
    `slow_start`: the probability that the pods of a job start slowly: they then need a random time, at
    most `slow_start_s`, until they run.
    `straggler`: the probability that a job runs `straggler_factor` times as long as in the trace.
    `late`: the probability that an event arrives late. Its delay is random, at most `late_s`.
    `lost`: the probability that an event is lost. The scheduler learns of the change from the next full list of
    objects, which it gets every `resync_s` seconds.
    `restart_every_s`: the mean time between restarts of the scheduler. After a restart, the scheduler gets a full list
    of all objects."""

    node_mtbf_s: float = 0.0
    node_repair_s: float = 3600.0
    slow_start: float = 0.0
    slow_start_s: float = 60.0
    straggler: float = 0.0
    straggler_factor: float = 1.5
    late: float = 0.0
    late_s: float = 10.0
    lost: float = 0.0
    resync_s: float = 300.0
    restart_every_s: float = 0.0


class Disturbance:
    def __init__(self, faults: Faults, seed: int) -> None:
        self.faults, self.seed = faults, seed
        self._drawn: dict[tuple[str, str], int] = {}

    def uniform(self, what: str, subject: str) -> float:
        """Return the next random number in [0, 1) for the subject and the kind of fault `what`."""
        nth = self._drawn[what, subject] = self._drawn.get((what, subject), -1) + 1
        return Random(f"{self.seed} {what} {subject} {nth}").random()

    def exponential_s(self, what: str, subject: str, mean_s: float) -> float:
        return inf if mean_s <= 0 else round(-mean_s * log(1.0 - self.uniform(what, subject)), 3)

    def start_delay_s(self, job: str) -> float:
        """Return the start delay of the job's pods, in seconds."""
        if not self.faults.slow_start or self.uniform("slow", job) >= self.faults.slow_start:
            return 0.0
        return round(self.uniform("start", job) * self.faults.slow_start_s, 3)

    def stretch(self, job: str) -> float:
        """Return the factor by which the job runs longer than in the trace; 1 if the job is no straggler."""
        straggles = self.faults.straggler and self.uniform("straggler", job) < self.faults.straggler
        return self.faults.straggler_factor if straggles else 1.0

    def message_delay_s(self, subject: str, now_s: float) -> float:
        """Return the delay after which the scheduler learns of a change of the subject at `now_s`."""
        if self.faults.lost and self.uniform("lost", subject) < self.faults.lost:
            return self.faults.resync_s - now_s % self.faults.resync_s
        if self.faults.late and self.uniform("late", subject) < self.faults.late:
            return round(self.uniform("delay", subject) * self.faults.late_s, 3)
        return 0.0

    def up_s(self, node: str) -> float:
        """Return the time until the next failure of the node, in seconds."""
        return self.exponential_s("up", node, self.faults.node_mtbf_s)

    def down_s(self, node: str) -> float:
        return self.exponential_s("down", node, self.faults.node_repair_s)

    def restart_after_s(self) -> float:
        return self.exponential_s("restart", "", self.faults.restart_every_s)


class NodeFaults:
    """The failures and repairs of nodes. `nodes`: the nodes of the cluster, by name. `send`: a function that takes an
    event about a node, and returns the events that reach the scheduler at once. `lose`: a function that removes a node
    and the pods on it.

    `coming`: the number of node failures and scheduler restarts on the agenda."""

    def __init__(
        self,
        disturbance: Disturbance,
        nodes: dict[str, Node],
        agenda: Agenda[Any],
        send: Callable[[str, Event], Sequence[Event]],
        lose: Callable[[str], Sequence[Event]],
    ) -> None:
        self.coming = 0
        self._disturbance, self._nodes, self._agenda = disturbance, nodes, agenda
        self._send, self._lose = send, lose

    def expect(self, restart: Callable[[], Sequence[Event]]) -> None:
        """Schedule the first failure of each node, and the first restart of the scheduler."""
        for node in self._nodes.values():
            self._expect_failure(node)
        if (after_s := self._disturbance.restart_after_s()) < inf:
            self.coming += 1
            self._agenda.put(self._agenda.now_s + after_s, AgendaKind.RESTART, restart)

    def _expect_failure(self, node: Node) -> None:
        if (up_s := self._disturbance.up_s(node.name)) < inf:
            self.coming += 1
            self._agenda.put(self._agenda.now_s + up_s, AgendaKind.NODE, partial(self._fail, node))

    def _fail(self, node: Node) -> Sequence[Event]:
        """Let the node fail, and schedule its repair. Return the events that reach the scheduler at once."""
        self.coming -= 1
        down_s = self._disturbance.down_s(node.name)
        self._agenda.put(self._agenda.now_s + down_s, AgendaKind.NODE, partial(self._repair, node))
        return self._lose(node.name)

    def _repair(self, node: Node) -> Sequence[Event]:
        self._nodes[node.name] = node
        self._expect_failure(node)
        return self._send(node.name, NodeSeen(node))


class UndeliveredEvents:
    """The events that the simulated cluster has sent and that have not reached the scheduler yet. `disturbance`: the
    source of random delays; None if no event is late. `era`: how often the scheduler has restarted so far."""

    def __init__(self, agenda: Agenda[Any], disturbance: Disturbance | None) -> None:
        self._agenda, self._disturbance = agenda, disturbance
        self.era = 0
        self._kept: list[Event] = []
        self._sent_until_s: dict[str, float] = {}  # subject -> the time at which its last event arrives

    @property
    def has_kept(self) -> bool:
        """Return whether events are stored for the next scheduling pass."""
        return bool(self._kept)

    def send(self, subject: str, event: Event) -> Sequence[Event]:
        """Return the event if it arrives at once; otherwise schedule its arrival and return an empty sequence."""
        if self._disturbance is None:
            return (event,)
        now_s = self._agenda.now_s
        at_s = now_s + self._disturbance.message_delay_s(subject, now_s)
        at_s = self._sent_until_s[subject] = max(at_s, self._sent_until_s.get(subject, 0.0))
        if at_s <= now_s:
            return (event,)
        self._agenda.put(at_s, AgendaKind.MESSAGE, partial(self._deliver, self.era, event))
        return ()

    def _deliver(self, era: int, event: Event) -> Sequence[Event]:
        return (event,) if era == self.era else ()

    def keep(self, events: Sequence[Event]) -> None:
        """Store the events until the next scheduling pass."""
        self._kept += events

    def with_kept(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events of a scheduling pass: first the events that were stored for this pass, then `events`."""
        if not self._kept:
            return events
        found, self._kept = (*self._kept, *events), []
        return found

    def restart(self) -> None:
        """Drop all events that have not arrived yet, because the restarted scheduler begins with a full list of
        objects."""
        self.era += 1
        self._kept.clear()
        self._sent_until_s.clear()
