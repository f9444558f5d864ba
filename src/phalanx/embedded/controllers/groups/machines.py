"""The group of controllers for nodes, and for the disruption of pods."""

from __future__ import annotations

from phalanx.client.kind import DISRUPTION_BUDGETS, NODES, PODS
from phalanx.embedded.controllers.disruption import DisruptionController
from phalanx.embedded.controllers.groups.group import ControllerGroup
from phalanx.embedded.controllers.groups.settings import Settings
from phalanx.embedded.controllers.nodes import NodeHealth, TaintEviction
from phalanx.embedded.controllers.runtime.calls import Calls, Clock
from phalanx.embedded.controllers.runtime.recorder import EventRecorder


def machine_group(calls: Calls, recorder: EventRecorder, settings: Settings, clock: Clock) -> ControllerGroup:
    """Return the controllers for lost nodes, for tainted nodes, and for PodDisruptionBudgets."""
    budgets = DisruptionController(calls, recorder, clock=clock)
    nodes = NodeHealth(calls, recorder, grace_s=settings.node_grace_s, period_s=settings.node_period_s, clock=clock)
    evictions = TaintEviction(calls, recorder, clock=clock)
    return ControllerGroup(
        queued=(budgets, nodes, evictions),
        endless={"nodes": nodes.watch},
        queues=((NODES, nodes.queue), (DISRUPTION_BUDGETS, budgets.queue), (PODS, evictions.queue)),
    )
