"""scheduler-plugins, as one dialect of the frame.


Its scheduler may have any name, so this dialect uses the name in its chart. If Phalanx also binds pods of the default
scheduler, these count too. A pod with Phalanx's scheduler name and a PodGroup label belongs to that PodGroup as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Answer, Claim, Ignored, Object, Objects, Said, Told, unused
from phalanx.dialects.scheduler_plugins import groups, kinds, quotas
from phalanx.dialects.scheduler_plugins.quotas import QuotaDefinitions
from phalanx.dialects.scheduler_plugins.tables import TABLES, WORDS


class SchedulerPlugins:
    """`frame.Dialect` of scheduler-plugins."""

    name: Final = kinds.NAME
    scheduler_names: Final = frozenset({kinds.SCHEDULER_NAME})
    definition_kinds: Final[tuple[Kind, ...]] = (
        kinds.ELASTIC_QUOTAS,
        kinds.NODE_TOPOLOGIES,
        kinds.APP_GROUPS,
        kinds.NETWORK_TOPOLOGIES,
    )
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {}
    answer_kinds: Final[tuple[Kind, ...]] = (kinds.POD_GROUPS, kinds.ELASTIC_QUOTAS)
    crds: Final = "scheduler_plugins/definitions.json"
    policies: Final[tuple[tuple[Kind, Object], ...]] = ()

    def define(self, objects: Objects) -> QuotaDefinitions:
        return quotas.define(objects)

    def options_of(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return groups.options_of(meta, scheduler) if kind == "Pod" else {}

    def claim(self, defined: QuotaDefinitions, said: Said, objects: Objects) -> Claim | None:
        return groups.claim(defined, said, objects)

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        if kind == "Pod":
            for key in obj["metadata"].get("labels") or ():
                if isinstance(use := WORDS.get(key), Ignored):
                    yield f"{key} has no effect: {use.why}"
        elif kind in ("PodGroup", "ElasticQuota"):
            yield from unused(obj.get("spec") or {}, TABLES[kind])
            yield from quotas.notes(obj.get("spec") or {})
        elif kind in TABLES:
            why = next(use.why for use in TABLES[kind].values() if isinstance(use, Ignored))
            yield f"it has no effect: {why}"

    def gang_of(self, answer: Object) -> str:
        return groups.gang_of(answer)

    def answer(self, defined: QuotaDefinitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        return groups.answer(told, objects, now)

    def statuses(
        self, defined: QuotaDefinitions, everyone: Iterable[Told], objects: Objects, now: str
    ) -> Iterable[Answer]:
        told = list(everyone)
        yield from groups.statuses(told, objects, now)
        yield from quotas.statuses(told, objects)


SCHEDULER_PLUGINS: Final = SchedulerPlugins()
