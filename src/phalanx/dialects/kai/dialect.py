"""Combine the parts of the KAI dialect into one `frame.Dialect`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.dialects.frame.dialect import Answer, Dialect, GangView, Objects, of_pods
from phalanx.dialects.kai import fields, grouper, kinds, pod_groups, queues, status
from phalanx.dialects.kai.admission import POLICIES
from phalanx.dialects.kai.queues import KaiDefinitions


def _answer(defined: KaiDefinitions, told: GangView, objects: Objects, now: str) -> Iterable[Answer]:
    found = status.pod_group(defined, told, objects, now)
    return () if found is None else (found,)


KAI: Final = Dialect(
    name=kinds.NAME,
    scheduler_names=frozenset({kinds.SCHEDULER_NAME}),
    definition_kinds=(kinds.QUEUES, PRIORITY_CLASSES, kinds.TOPOLOGIES, kinds.SHARDS),
    answer_kinds=(kinds.POD_GROUPS, kinds.QUEUES, *kinds.OWNERS, *kinds.ABOVE),  # Phalanx only reads the owners of pods
    crds="kai/definitions.json",
    policies=POLICIES,
    define=queues.define,
    options_of=of_pods(grouper.options_of),
    claim=pod_groups.claim,
    notes=fields.notes,
    gang_of=pod_groups.gang_of,
    answer=_answer,
    statuses=lambda defined, everyone, objects, now: status.queues(defined, everyone, objects),
)
