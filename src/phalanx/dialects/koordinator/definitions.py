"""All that Koordinator's definitions say: the tree of quotas, and the Reservations that have not ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from phalanx.dialects.frame.dialect import Object, Objects, PartUse, StandIn
from phalanx.dialects.koordinator import kinds
from phalanx.dialects.koordinator.quota import tree
from phalanx.dialects.koordinator.quota.tree import QuotaDefinitions
from phalanx.dialects.koordinator.reservation import owners, room
from phalanx.dialects.koordinator.reservation.spec import Reservation, read_reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class KoordinatorDefinitions(QuotaDefinitions):
    """`reservations`: those that wait for room, or keep some, by name."""

    reservations: Mapping[str, Reservation] = field(default_factory=dict)

    def part_use(self, pod: Object) -> PartUse | None:
        if not kinds.is_theirs(pod["metadata"], str((pod.get("spec") or {}).get("schedulerName") or "")):
            return None
        return owners.part_use(pod, [one for one in self.reservations.values() if one.keeps and not one.closed])

    def placed(self, stand_in: StandIn, node: str, now: str) -> Object:
        return room.available(self.reservations[stand_in.key], node, now)

    def at_binding(self, part: str) -> Mapping[str, str]:
        kept = next((one for one in self.reservations.values() if one.part == part), None)
        if kept is None:
            return {}
        return {kinds.ALLOCATED: msgspec.json.encode({"name": kept.name, "uid": kept.uid}).decode()}


def define(objects: Objects) -> KoordinatorDefinitions:
    """Return all of it."""
    quotas = tree.define(objects)
    there = objects.get(kinds.RESERVATIONS, {})
    read = {name: read_reservation(there[name]) for name in sorted(there)}
    return KoordinatorDefinitions(
        queues=quotas.queues,
        quotas=quotas.quotas,
        by_namespace=quotas.by_namespace,
        parts=tuple(room.part(one) for one in read.values() if one.keeps),
        stand_ins=tuple(room.stand_in(there[name], one) for name, one in read.items() if one.waits),
        reservations={name: one for name, one in read.items() if one.waits or one.keeps},
    )
