"""Combine the parts of the Volcano dialect into one `frame.Dialect`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.client.kind import NAMESPACES, NODES, PRIORITY_CLASSES
from phalanx.dialects.frame.dialect import Answer, Dialect, GangView, Objects, of_pods
from phalanx.dialects.volcano import answers, kinds, pod_groups, settings
from phalanx.dialects.volcano.admission import POLICIES
from phalanx.dialects.volcano.definitions import queues
from phalanx.dialects.volcano.definitions.configuration import CONFIGURATIONS
from phalanx.dialects.volcano.definitions.queues import VolcanoDefinitions
from phalanx.dialects.volcano.tables import notes


def _statuses(
    defined: VolcanoDefinitions, everyone: Iterable[GangView], objects: Objects, now: str
) -> Iterable[Answer]:
    yield from answers.statuses({queue.name: queue for queue in defined.queues}, everyone, objects, now)
    yield from answers.hyper_nodes(defined.hyper_nodes, objects)


VOLCANO: Final = Dialect(
    name=kinds.NAME,
    scheduler_names=frozenset({kinds.SCHEDULER_NAME}),
    definition_kinds=(
        NAMESPACES,
        PRIORITY_CLASSES,
        CONFIGURATIONS,
        kinds.QUEUES,
        kinds.JOBS,
        kinds.JOB_FLOWS,
        kinds.HYPER_NODES,
        kinds.NUMA_TOPOLOGIES,
        kinds.COLOCATIONS,
    ),
    by_status={kinds.QUEUES: ("state",)},
    # Phalanx reads the nodes to count those in each HyperNode, and to sum up the amounts of all nodes.
    answer_kinds=(kinds.POD_GROUPS, kinds.QUEUES, kinds.HYPER_NODES, NODES),
    crds="volcano/definitions.json",
    policies=POLICIES,
    define=queues.define,
    options_of=of_pods(pod_groups.options_of),
    claim=pod_groups.claim,
    notes=lambda kind, obj: settings.notes(obj) if kind == CONFIGURATIONS.name else notes(kind, obj),
    gang_of=pod_groups.gang_of,
    answer=lambda defined, told, objects, now: answers.answer(told, objects, now),
    statuses=_statuses,
)
