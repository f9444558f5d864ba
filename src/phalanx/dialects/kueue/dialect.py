"""Combine the parts of the Kueue dialect into one `frame.Dialect`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.client.kind import NAMESPACES
from phalanx.dialects.frame.dialect import Answer, Claim, Dialect, GangView, Object, Objects, Said
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.answers import names, queue_statuses, workloads
from phalanx.dialects.kueue.fields import tables
from phalanx.dialects.kueue.policies.definition_rules import POLICIES
from phalanx.dialects.kueue.provisioning import requests
from phalanx.dialects.kueue.tree import claims, definitions
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions
from phalanx.dialects.kueue.tree.workload import workload_of


def _claim(defined: KueueDefinitions, said: Said, objects: Objects) -> Claim | None:
    key = names.key_of_gang(defined, said)
    existing = objects.get(kinds.WORKLOADS, {}).get(key)
    return claims.claim(defined, said, None if existing is None else workload_of(existing))


def _gang_of(answer: Object) -> str:
    said = (answer.get("metadata") or {}).get("annotations") or {}
    if found := said.get(requests.GANG):
        return str(found)
    return names.gang_of(answer) if answer.get("kind", kinds.WORKLOADS.name) == kinds.WORKLOADS.name else ""


def _answer(defined: KueueDefinitions, told: GangView, objects: Objects, now: str) -> Iterable[Answer]:
    if workloads.incomplete(told) or names.is_nameless(defined, told):
        return
    existing = objects.get(kinds.WORKLOADS, {}).get(names.key_of(defined, told))
    if existing is None and claims.missing_class(defined, told.options, None):
        return
    yield from workloads.answers(defined, told, objects, now)


KUEUE: Final = Dialect(
    name=kinds.NAME,
    definition_kinds=(
        NAMESPACES,
        CONFIGURATIONS,
        kinds.RESOURCE_FLAVORS,
        kinds.PRIORITY_CLASSES,
        kinds.ADMISSION_CHECKS,
        kinds.PROVISIONING_CONFIGS,
        kinds.PROVISIONING_REQUESTS,
        kinds.MULTI_CONFIGS,
        kinds.MULTI_CLUSTERS,
        kinds.TOPOLOGIES,
        kinds.COHORTS,
        kinds.CLUSTER_QUEUES,
        kinds.LOCAL_QUEUES,
        kinds.LEADER_WORKER_SETS,
    ),
    by_status={
        kinds.ADMISSION_CHECKS: ("conditions",),
        kinds.MULTI_CLUSTERS: ("conditions",),
        kinds.PROVISIONING_REQUESTS: ("conditions", "provisioningClassDetails"),
    },
    answer_kinds=(
        kinds.WORKLOADS,
        kinds.RESOURCE_FLAVORS,
        kinds.CLUSTER_QUEUES,
        kinds.LOCAL_QUEUES,
        kinds.COHORTS,
        kinds.ADMISSION_CHECKS,
        kinds.POD_TEMPLATES,
        kinds.PROVISIONING_REQUESTS,
    ),
    crds="kueue/definitions.json",
    policies=POLICIES,
    define=definitions.define,
    options_of=lambda kind, meta, scheduler="": gangs.options_of(kind, meta),
    claim=_claim,
    notes=tables.notes,
    gang_of=_gang_of,
    answer=_answer,
    statuses=queue_statuses.statuses,
)
