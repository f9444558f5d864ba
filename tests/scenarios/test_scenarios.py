"""Each scenario decides as its file states. `pytest tests/scenarios --rewrite` writes the present decisions into the
files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from phalanx.core.fold.fold import fold
from phalanx.loop import step
from phalanx.model.event import Event, QueueSeen
from phalanx.model.job import Placement
from phalanx.model.plan import (
    Action,
    Nominate,
    Place,
    Plan,
    Preempt,
    ReleaseNodes,
    RequestNodes,
    Shrink,
    Start,
    Wait,
)
from phalanx.model.pod import format_amount
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import ReasonCode
from phalanx.report.forecast import forecast
from phalanx.state.cluster import Cluster
from tests.invariants import check_invariants

from . import placing
from .language import Block, Book, Cycle, Expected, Malformed, read

FOLDER = Path(__file__).parent
# Reason codes without a scenario. Remove a code from this set when its first scenario is written.
COMING: set[ReasonCode] = set()
FILES = sorted(FOLDER.rglob("*.txt"))


class Unmoved:
    """A world that does nothing. The file alone states the events."""

    def apply(self, plan: Plan) -> None:
        pass


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER).with_suffix("")))
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    blocks = read(path)
    decided = play(blocks)
    if request.config.getoption("--rewrite"):
        rewrite(path, blocks, decided)
    else:
        assert decided == [block.expected for block in blocks]


def test_a_scenario_is_short_and_says_its_idea() -> None:
    lines = {path: path.read_text().splitlines() for path in FILES}
    assert len(lines) > 300
    assert [path for path, found in lines.items() if not found[0].startswith("# ")] == []
    assert [path for path, found in lines.items() if len(found) >= 60] == []


def test_together_they_show_every_reason_of_the_core() -> None:
    from_a_world = {
        ReasonCode.PREEMPTED,
        ReasonCode.WAITING_FOR_MEMBERS,
        ReasonCode.HELD,
        ReasonCode.INVALID,
        ReasonCode.UNSUPPORTED,
        ReasonCode.QUOTA,
        ReasonCode.STALE,
    }
    from_a_world |= {ReasonCode.VOLUMES, ReasonCode.REJECTED, *COMING}
    shown = "\n".join(path.read_text() for path in FILES)
    assert [code for code in set(ReasonCode) - from_a_world if str(code) not in shown] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nod a cpu=1", "x.txt:1: 'nod' is no statement"),
        ("# fine\nnode a cpu=lots", "x.txt:2: 'lots' is not a quantity"),
        ("job j pods=2 cpus:3", "x.txt:1: 'cpus:3' means nothing here"),
        ("job j\nopen j driver/0", "x.txt:2: there is no role 'driver' (roles: worker)"),
        ("cycle", "x.txt:1: the last statements have no `----` behind them"),
    ],
)
def test_a_malformed_line_is_named(text: str, complaint: str) -> None:
    with pytest.raises(Malformed) as caught:
        read(Path("x.txt"), text)
    assert str(caught.value).startswith(complaint)


def play(blocks: Sequence[Block]) -> list[list[str]]:
    """Return the decisions of each block's cycles, as lines."""
    stage = Stage()
    fold(stage.cluster, [QueueSeen(Queue(name="default"))])
    return [list(play_block(stage, block)) for block in blocks]


@dataclass(slots=True)
class Stage:
    cluster: Cluster = field(default_factory=Cluster)
    policy: Policy = field(default_factory=Policy)


def play_block(stage: Stage, block: Block) -> Iterator[str]:
    events: list[Event] = []
    cluster = stage.cluster
    for item in block.steps:
        if isinstance(item, Policy):
            stage.policy = item
        elif isinstance(item, Cycle):
            plan = step(cluster, events, stage.policy, item.now_s, Unmoved())
            yield from written(cluster, plan)
            events = []
            check_invariants(cluster)
        elif isinstance(item, Book):
            fold(cluster, events)
            events = []
            yield from book(cluster)
        elif isinstance(item, Expected):
            fold(cluster, events)
            events = []
            yield from expected(stage, item.jobs)
        else:
            events.append(item)
    fold(cluster, events)
    check_invariants(cluster)


def expected(stage: Stage, jobs: Sequence[str]) -> Iterator[str]:
    found = forecast(stage.cluster, stage.policy, stage.cluster.now_s, jobs)
    for job in jobs:
        if job not in found:
            yield f"expected {job}: nobody knows when"
        else:
            after = f", when {found[job].after} is over" if found[job].after else ""
            from_s, to_s = found[job].likely_s
            likely = f" (every other time {from_s:.0f} to {to_s:.0f})" if from_s < to_s else ""
            yield f"expected {job} at {found[job].start_s:.0f}{likely}{after}"


def written(cluster: Cluster, plan: Plan) -> Iterator[str]:
    if not plan.actions:
        yield "nothing"
    for action in plan.actions:
        yield line(cluster, action)
    if plan.wake_s is not None:
        yield f"wake at {plan.wake_s:g}"


def line(cluster: Cluster, action: Action) -> str:
    match action:
        case Start(job, attempt, ()):
            return f"start {job}#{attempt} pod by pod"
        case Start(job, attempt, placements):
            return f"start {job}#{attempt} {on_nodes(cluster, job, placements)}"
        case Place(job, placements):
            names = [role.name for role in cluster.jobs[job].job.roles]
            placed = (f"{names[role]}/{at} on {placing.shown(node, given)}" for role, at, node, given in placements)
            return f"place {job} {', '.join(placed)}"
        case Wait(job, reason):
            return f"wait {job} {reason.code}: {reason.text}"
        case Preempt(job, _, by, reason):
            return f"preempt {job} for {by}, {reason.code}: {reason.text}"
        case Shrink(job, slots, by, reason):
            names = [role.name for role in cluster.jobs[job].job.roles]
            less = ", ".join(f"{names[role]}/{ordinal}" for role, ordinal in slots)
            return f"shrink {job} by {less} for {by}, {reason.code}: {reason.text}"
        case Nominate(job, placements):
            return (
                f"promise {job} {on_nodes(cluster, job, placements)}" if placements else f"promise {job} nothing more"
            )
        case RequestNodes(job, group, nodes):
            return f"request {' '.join(nodes)} of {group} for {job or 'its minimum'}"
        case ReleaseNodes(_, group, nodes, late):
            return f"{'give up' if late else 'release'} {' '.join(nodes)} of {group}"


def on_nodes(cluster: Cluster, job: str, placements: Sequence[Placement]) -> str:
    """Return the placements by role: `driver on a; worker on a*2 b`."""
    roles = cluster.jobs[job].job.roles
    parts = []
    for index, role in enumerate(roles):
        counted = Counter(placing.shown(node, given) for at, _, node, given in placements if at == index)
        where = " ".join(node if count == 1 else f"{node}*{count}" for node, count in counted.items())
        parts.append(f"{role.name} on {where}" if where else f"no {role.name}")
    return "; ".join(parts)


def book(cluster: Cluster) -> Iterator[str]:
    for node in sorted(cluster.columns, key=lambda node: node.name):
        free = cluster.columns.free_of(cluster.columns.row_of[node.name])
        amounts = (f"{name} {format_amount(name, free[name])}" for name, _ in node.allocatable)
        yield f"free on {node.name}: {', '.join((*amounts, *placing.left(cluster.columns, node)))}"


def rewrite(path: Path, blocks: Sequence[Block], decided: Sequence[Sequence[str]]) -> None:
    lines = path.read_text().splitlines()
    for block, output in reversed(list(zip(blocks, decided, strict=True))):
        lines[block.first : block.last] = output
    path.write_text("\n".join(lines) + "\n")
