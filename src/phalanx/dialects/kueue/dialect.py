"""Kueue, as one dialect of the frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.client.kind import NAMESPACES, Kind
from phalanx.dialects.frame.dialect import Answer, Claim, Object, Objects, Said, Told
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.answers import names, workloads
from phalanx.dialects.kueue.answers.queues import statuses
from phalanx.dialects.kueue.fields import notes
from phalanx.dialects.kueue.policies.all import POLICIES
from phalanx.dialects.kueue.provisioning import requests
from phalanx.dialects.kueue.tree import claims, definitions
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions


class Kueue:
    """`frame.Dialect` of Kueue."""

    name: Final = kinds.NAME
    scheduler_names: Final[frozenset[str]] = frozenset()
    definition_kinds: Final[tuple[Kind, ...]] = (
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
    )
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {
        kinds.ADMISSION_CHECKS: ("conditions",),
        kinds.MULTI_CLUSTERS: ("conditions",),
        kinds.PROVISIONING_REQUESTS: ("conditions", "provisioningClassDetails"),
    }
    answer_kinds: Final[tuple[Kind, ...]] = (
        kinds.WORKLOADS,
        kinds.RESOURCE_FLAVORS,
        kinds.CLUSTER_QUEUES,
        kinds.LOCAL_QUEUES,
        kinds.COHORTS,
        kinds.ADMISSION_CHECKS,
        kinds.POD_TEMPLATES,
        kinds.PROVISIONING_REQUESTS,
    )
    crds: Final = "kueue/definitions.json"
    policies: Final[tuple[tuple[Kind, Object], ...]] = POLICIES

    def define(self, objects: Objects) -> KueueDefinitions:
        return definitions.define(objects)

    def options_of(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return gangs.options_of(kind, meta)

    def claim(self, defined: KueueDefinitions, said: Said, objects: Objects) -> Claim | None:
        key = names.key_of_gang(defined, said)
        return claims.claim(defined, said, objects.get(kinds.WORKLOADS, {}).get(key))

    def gang_of(self, answer: Object) -> str:
        said = (answer.get("metadata") or {}).get("annotations") or {}
        if found := said.get(requests.GANG):
            return str(found)
        return names.gang_of(answer) if answer.get("kind", kinds.WORKLOADS.name) == kinds.WORKLOADS.name else ""

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        return notes.notes(kind, obj)

    def answer(self, defined: KueueDefinitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        if workloads.incomplete(told) or names.is_nameless(defined, told):
            return
        yield from workloads.answers(defined, told, objects, now)

    def statuses(
        self, defined: KueueDefinitions, everyone: Iterable[Told], objects: Objects, now: str
    ) -> Iterable[Answer]:
        return statuses.statuses(defined, everyone, objects, now)


KUEUE: Final = Kueue()
