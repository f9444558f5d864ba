"""Combine the parts of the scheduler-plugins dialect into one `frame.Dialect`.

Users may give the scheduler of scheduler-plugins any name; this dialect uses the name from scheduler-plugins' Helm
chart. If Phalanx also binds pods of the default scheduler, these pods belong to this dialect too. A pod with Phalanx's
scheduler name and a PodGroup label belongs to that PodGroup as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.dialects.frame.dialect import Answer, Dialect, GangView, Object, Objects, of_pods
from phalanx.dialects.frame.fields import Ignored, unused
from phalanx.dialects.kube_scheduler.scheduler_plugins import groups, kinds, quotas
from phalanx.dialects.kube_scheduler.scheduler_plugins.quotas import QuotaDefinitions
from phalanx.dialects.kube_scheduler.scheduler_plugins.tables import TABLES, WORDS


def _notes(kind: str, obj: Object) -> Iterable[str]:
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


def _statuses(defined: QuotaDefinitions, everyone: Iterable[GangView], objects: Objects, now: str) -> Iterable[Answer]:
    told = list(everyone)
    yield from groups.statuses(told, objects, now)
    yield from quotas.statuses(told, objects)


SCHEDULER_PLUGINS: Final = Dialect(
    name=kinds.NAME,
    scheduler_names=frozenset({kinds.SCHEDULER_NAME}),
    definition_kinds=(kinds.ELASTIC_QUOTAS, kinds.NODE_TOPOLOGIES, kinds.APP_GROUPS, kinds.NETWORK_TOPOLOGIES),
    answer_kinds=(kinds.POD_GROUPS, kinds.ELASTIC_QUOTAS),
    crds="kube_scheduler/scheduler_plugins/definitions.json",
    define=quotas.define,
    options_of=of_pods(groups.options_of),
    claim=groups.claim,
    notes=_notes,
    gang_of=groups.gang_of,
    answer=lambda defined, told, objects, now: groups.answer(told, objects, now),
    statuses=_statuses,
)
