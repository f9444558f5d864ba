"""The provider of the simulated cluster's node groups: it adds and removes nodes, and records which nodes must be paid
for.

A node must be paid for from its arrival until it is removed or lost. Random faults occur, as in `disturbance`: the
provider refuses a requested node, the node arrives late or never, or a node is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

from phalanx.model.event import Event, NodeGroupSeen, NodesComing, NodeSeen, NodesFailed
from phalanx.model.node import Node
from phalanx.model.plan import ReleaseNodes, RequestNodes
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.disturbance import Disturbance
from phalanx.simulator.schedule import Rental
from phalanx.simulator.workload import SimulatedGroup

REFUSED = "the provider has no such nodes now"
HOPELESS = 100  # if this many requests for nodes fail in a row, the run ends


class NodeProvider:
    """The provider. `nodes`: the nodes of the cluster, by name. `report`: a function that takes an event about a node,
    and returns the events that reach the scheduler at once. `lose`: a function that removes a node from the cluster,
    together with the pods on it.

    `rentals`: the nodes that were paid for, with the times. `failures`: how many requested nodes in a row have not
    arrived."""

    def __init__(
        self,
        groups: Sequence[SimulatedGroup],
        nodes: dict[str, Node],
        agenda: Agenda[Any],
        chance: Disturbance,
        report: Callable[[str, Event], Sequence[Event]],
        lose: Callable[[str], Sequence[Event]],
    ) -> None:
        self.groups = {each.group.name: each for each in groups}
        self.nodes, self.agenda, self.chance = nodes, agenda, chance
        self._report, self._lose = report, lose
        self.rentals: list[Rental] = []
        self.failures = 0
        self._coming: dict[str, tuple[RequestNodes, int]] = {}  # node -> (its request, number of the request)
        self._since_s: dict[str, float] = {}  # node -> the time of its arrival
        self._number = 0
        for each in groups:
            for node in each.nodes(each.group.min_nodes):
                self._add(each, node)

    def apply(self, action: RequestNodes | ReleaseNodes) -> None:
        """Carry out the action: put the arrival or removal of each of its nodes on the agenda."""
        match action:
            case RequestNodes():
                for name in action.nodes:
                    self._request(self.groups[action.group], name, action)
            case ReleaseNodes():
                for name in action.nodes:
                    self.failures += action.late and name in self._coming
                    if self._coming.pop(name, None) is None and name in self.nodes:
                        self.agenda.put(
                            self.agenda.now_s, AgendaKind.NODE, partial(self._remove, name, self._since_s[name])
                        )

    def listing(self) -> list[Event]:
        """Return the events that describe the groups and the requested nodes to a scheduler that has just started."""
        groups: list[Event] = [NodeGroupSeen(each.group) for each in self.groups.values()]
        coming = [
            NodesComing(request.group, (name,), request.requested_s, request.expected_s, request.until_s)
            for name, (request, _) in self._coming.items()
        ]
        return [*groups, *coming]

    def close(self) -> None:
        """Complete the bill: nodes that still exist are charged up to the present time."""
        for name in list(self._since_s):
            self._end(name)

    @property
    def is_hopeless(self) -> bool:
        """Return whether the run should end, because `HOPELESS` requested nodes in a row did not arrive."""
        return self.failures >= HOPELESS

    def _request(self, group: SimulatedGroup, name: str, request: RequestNodes) -> None:
        self._number += 1
        self._coming[name] = request, self._number
        kind, now_s, delay_s = group.group.name, self.agenda.now_s, group.group.delay_s
        draw = self.chance.uniform("provide", kind)
        if draw < group.refused:
            self.agenda.put(now_s + delay_s, AgendaKind.NODE, partial(self._refuse, name, self._number))
        elif draw >= group.refused + group.never:
            late = group.late and self.chance.uniform("node late", kind) < group.late
            more_s = round(self.chance.uniform("node delay", kind) * group.late_s, 3) if late else 0.0
            self.agenda.put(now_s + delay_s + more_s, AgendaKind.NODE, partial(self._arrive, group, name, self._number))

    def _refuse(self, name: str, number: int) -> Sequence[Event]:
        if (request := self._taken(name, number)) is None:
            return ()
        self.failures += 1
        return self._report(name, NodesFailed(request.group, (name,), REFUSED))

    def _arrive(self, group: SimulatedGroup, name: str, number: int) -> Sequence[Event]:
        if self._taken(name, number) is None:
            return ()
        self.failures = 0
        node = group.node(name)
        self._add(group, node)
        return self._report(name, NodeSeen(node))

    def _taken(self, name: str, number: int) -> RequestNodes | None:
        """Remove and return the request of the node; None if the request was cancelled in the meantime."""
        request, at = self._coming.get(name, (None, 0))
        if at != number:
            return None
        del self._coming[name]
        return request

    def _add(self, group: SimulatedGroup, node: Node) -> None:
        """Add the node to the cluster. If its group has a mean lifetime, plan the loss of the node."""
        now_s = self.agenda.now_s
        self.nodes[node.name], self._since_s[node.name] = node, now_s
        lives_s = self.chance.exponential_s("lifetime", group.group.name, group.lifetime_s)
        if lives_s < inf:
            self.agenda.put(now_s + lives_s, AgendaKind.NODE, partial(self._remove, node.name, now_s))

    def _remove(self, name: str, since_s: float) -> Sequence[Event]:
        """Remove the node. Do nothing if the node that arrived at `since_s` is already gone, even if a new node has the
        same name."""
        if self._since_s.get(name) != since_s:
            return ()
        self._end(name)
        return self._lose(name)

    def _end(self, name: str) -> None:
        group = self.groups[self.nodes[name].group].group
        self.rentals.append(Rental(self.nodes[name], group.price_per_hour, self._since_s.pop(name), self.agenda.now_s))
