"""Combine the parts of the Koordinator dialect into one `frame.Dialect`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import Answer, Dialect, GangView, Objects, of_pods
from phalanx.dialects.kube_scheduler.koordinator import gang, kinds, quota_tree, quota_usage, reservation
from phalanx.dialects.kube_scheduler.koordinator.definitions.defined import KoordinatorDefinitions, define, gang_of
from phalanx.dialects.kube_scheduler.koordinator.fields import tables
from phalanx.dialects.kube_scheduler.koordinator.webhooks import POLICIES


def _statuses(
    defined: KoordinatorDefinitions, everyone: Iterable[GangView], objects: Objects, now: str
) -> Iterable[Answer]:
    told = list(everyone)
    yield from gang.statuses(told, objects, now)
    yield from quota_tree.answers(defined, objects)
    yield from quota_usage.answers(defined, told, objects)
    yield from reservation.statuses(told, objects, now)


KOORDINATOR: Final = Dialect(
    name=kinds.NAME,
    scheduler_names=frozenset({kinds.SCHEDULER_NAME}),
    definition_kinds=(
        kinds.POD_GROUPS,
        kinds.ELASTIC_QUOTAS,
        kinds.QUOTA_PROFILES,
        kinds.COLOCATION_PROFILES,
        kinds.RESERVATIONS,
        kinds.DEVICES,
        kinds.NODE_TOPOLOGIES,
        kinds.MIGRATION_JOBS,
        kinds.NETWORK_TOPOLOGIES,
        kinds.EXPLANATIONS,
    ),
    by_status={kinds.RESERVATIONS: ("phase", "nodeName")},
    # Nodes are read because the quotas share the capacity of all nodes.
    answer_kinds=(kinds.POD_GROUPS, kinds.ELASTIC_QUOTAS, kinds.QUOTA_PROFILES, kinds.RESERVATIONS, NODES),
    crds="kube_scheduler/koordinator/definitions.json",
    policies=POLICIES,
    define=define,
    options_of=of_pods(gang.options_of),
    claim=gang.claim,
    notes=tables.notes,
    gang_of=gang_of,
    answer=lambda defined, told, objects, now: gang.answer(told, objects, now),
    statuses=_statuses,
)
