"""What can go wrong in a simulated cluster, drawn from a seed.

Each draw depends on the seed, what it is about and how often it was drawn before, and on nothing else: under another
policy the same nodes fail at the same times and the same jobs are stragglers, so that policies are compared in pairs.
`random.Random` seeded with a text, and its `random()`, give the same numbers in every version of Python; the
distributions are made from these here."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """All seconds; 0 switches a fault off. A node fails after an exponential time with mean `node_mtbf_s` and is back
    after one with mean `node_repair_s`. With `slow_start` (a chance) a job's pods take up to `slow_start_s` until they
    run; with `straggler` a job runs `straggler_factor` times as long. With `late` an event is told up to `late_s` late;
    with `lost` it is lost, and known only at the next full listing, of which there is one every `resync_s`. The
    scheduler restarts, with nothing but the listing, every `restart_every_s` on average."""

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
        """In [0, 1): the next draw of that kind about that subject."""
        nth = self._drawn[what, subject] = self._drawn.get((what, subject), -1) + 1
        return Random(f"{self.seed} {what} {subject} {nth}").random()

    def exponential_s(self, what: str, subject: str, mean_s: float) -> float:
        return inf if mean_s <= 0 else round(-mean_s * log(1.0 - self.uniform(what, subject)), 3)

    def start_delay_s(self, job: str) -> float:
        """How long its pods take until they run."""
        if not self.faults.slow_start or self.uniform("slow", job) >= self.faults.slow_start:
            return 0.0
        return round(self.uniform("start", job) * self.faults.slow_start_s, 3)

    def stretch(self, job: str) -> float:
        """How many times as long as in the trace it runs."""
        straggles = self.faults.straggler and self.uniform("straggler", job) < self.faults.straggler
        return self.faults.straggler_factor if straggles else 1.0

    def message_delay_s(self, subject: str, now_s: float) -> float:
        """How late what happens to that subject now is heard of."""
        if self.faults.lost and self.uniform("lost", subject) < self.faults.lost:
            return self.faults.resync_s - now_s % self.faults.resync_s
        if self.faults.late and self.uniform("late", subject) < self.faults.late:
            return round(self.uniform("delay", subject) * self.faults.late_s, 3)
        return 0.0

    def up_s(self, node: str) -> float:
        """How long the node lasts until it fails."""
        return self.exponential_s("up", node, self.faults.node_mtbf_s)

    def down_s(self, node: str) -> float:
        return self.exponential_s("down", node, self.faults.node_repair_s)

    def restart_after_s(self) -> float:
        return self.exponential_s("restart", "", self.faults.restart_every_s)
