"""A recording of a cluster with node groups is replayed to the same decisions."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx import loop
from phalanx.cli.files.recording import RecordedStep, decided
from phalanx.cli.local.node_groups.option import node_groups
from phalanx.model.event import Event
from phalanx.model.plan import Plan, ReleaseNodes, RequestNodes
from phalanx.model.policy import Policy
from phalanx.simulator.run.play import TimedApplier, play
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.workload import GPU, Workload
from phalanx.state.cluster import Cluster
from tests.simulator.test_workload_node_groups import gang


def test_a_replay_requests_and_releases_the_same_nodes() -> None:
    steps: list[RecordedStep] = []

    def recorded(cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: TimedApplier) -> Plan:
        plan = loop.step(cluster, events, policy, now_s, world)
        steps.append(
            RecordedStep(
                number=len(steps) + 1,
                begins=not steps,
                now_s=now_s,
                policy=policy,
                events=tuple(events),
                actions=plan.actions,
            )
        )
        return plan

    groups = node_groups(["bad=0x8gpu,timeout=4m,never=0.5,refused=0.2,price=1", "good=1x8gpu,delay=2m,price=3"])
    tasks = [gang(f"j{at}", 400.0 * at, 900.0, 1 + at % 3) for at in range(12)]
    play(Workload(name="t", tasks=tasks, groups=groups, counted=GPU, unit=1), built_in("easy"), recorded)
    kinds = {type(action) for step in steps for action in step.actions or ()}
    assert {RequestNodes, ReleaseNodes} <= kinds
    cluster = Cluster()
    assert [decided(cluster, step).actions for step in steps] == [step.actions for step in steps]
