"""Play a trace of events through the real loop and judge every cycle; read traces from scenario files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from phalanx.core.fold.fold import fold
from phalanx.loop import Applier, step
from phalanx.model.event import Event, PolicySeen, QueueSeen, Ticked
from phalanx.model.plan import Plan
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.state.cluster import Cluster
from tests.scenarios.language import Book, Cycle, Expected, Reader

from .facts import Facts
from .judge import Fault, judge
from .snapshot import facts_of


@dataclass(slots=True)
class Turn:
    """The events before one cycle, and the time of the cycle."""

    events: list[Event] = field(default_factory=list)
    now_s: float = 0.0


class Unmoved:
    """A world that does nothing. The trace alone states the events."""

    def apply(self, plan: Plan) -> None:
        pass


@dataclass(slots=True)
class Played:
    """A cluster state that is played cycle by cycle. `lates`: the last cycles in a row that left a decision to the next
    cycle."""

    policy: Policy = field(default_factory=Policy)
    cluster: Cluster = field(default_factory=Cluster)
    lates: int = 0

    def cycle(self, turn: Turn, world: Applier | None = None) -> tuple[Facts, Plan, Fault | None]:
        """Fold the events, copy the facts, decide, and judge the plan."""
        fold(self.cluster, [PolicySeen(self.policy), Ticked(turn.now_s), *turn.events])
        facts = facts_of(self.cluster, turn.now_s)
        plan = step(self.cluster, (), self.policy, turn.now_s, world or Unmoved())
        fault = judge(facts, plan)
        self.lates = self.lates + 1 if fault and fault.is_late else 0
        return facts, plan, fault


LATEST = 4  # cycles in a row that may leave a decision to the next cycle


def first_fault(turns: Sequence[Turn], policy: Policy) -> tuple[int, Fault] | None:
    """Return the first cycle of a trace whose plan breaks a rule, and the rule. A right decision that is only late is a
    fault if it is late `LATEST` times in a row."""
    played = Played(policy)
    for number, turn in enumerate(turns):
        _, _, fault = played.cycle(turn)
        if fault is not None and (not fault.is_late or played.lates > LATEST):
            return number, fault
    return None


def read_turns(text: str) -> tuple[list[Turn], Policy]:
    """Return the cycles of a scenario file (expectations behind `----` are skipped), and its policy."""
    reader, turns, policy = Reader(), [Turn([QueueSeen(Queue(name="default"))])], Policy()
    for line in statements(text):
        for each in reader.statement(line):
            if isinstance(each, Cycle):
                turns[-1].now_s = each.now_s
                turns.append(Turn())
            elif isinstance(each, Policy):
                policy = each
            elif not isinstance(each, Book | Expected):
                turns[-1].events.append(each)
    return turns[:-1], policy


def statements(text: str) -> Iterator[str]:
    is_expectation = False
    for line in text.splitlines():
        is_expectation = (is_expectation or line.startswith("----")) and bool(line.strip())
        if line.strip() and not line.startswith("#") and not is_expectation:
            yield line


def read_file(path: Path) -> tuple[list[Turn], Policy]:
    return read_turns(path.read_text())
