"""Lists the fields, labels and annotations of Koordinator on an object, a pod or a node that have no effect, and
why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Ignored, unused
from phalanx.dialects.kube_scheduler.koordinator.fields.tables import (
    NODE_WORDS,
    POD_WORDS,
    PROFILE_WORDS,
    QUOTA_WORDS,
    RESERVATION_WORDS,
    TABLES,
    TOPOLOGY_WORDS,
)

_PREFIXES = (
    "koordinator.sh/",
    "scheduling.koordinator.sh/",
    "gang.scheduling.koordinator.sh/",
    "quota.scheduling.koordinator.sh/",
    "node.koordinator.sh/",
    "pod.koordinator.sh/",
)
_WHOLE = frozenset({"PodMigrationJob", "ScheduleExplanation", "ClusterNetworkTopology"})


def notes(kind: str, obj: Object) -> Iterator[str]:
    """Yield a sentence for each field, label and annotation without effect."""
    match kind:
        case "Pod" | "PodGroup":
            yield from _words(obj, POD_WORDS)
        case "Node":
            yield from _words(obj, NODE_WORDS)
        case "ElasticQuota":
            yield from _words(obj, QUOTA_WORDS)
        case "Reservation":
            yield from _words(obj, RESERVATION_WORDS)
        case "ClusterColocationProfile":
            yield from _words(obj, PROFILE_WORDS)
        case "NodeResourceTopology":
            yield from _words(obj, TOPOLOGY_WORDS)
        case _:
            pass
    if kind in _WHOLE:
        why = next(use.why for use in TABLES[kind].values() if isinstance(use, Ignored))
        yield f"it has no effect: {why}"
    elif kind in TABLES:
        yield from unused(obj.get("spec") or {}, TABLES[kind])


def _words(obj: Object, table: Mapping[str, object]) -> Iterator[str]:
    meta = obj["metadata"]
    for key in {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}:
        if isinstance(use := table.get(key), Ignored):
            yield f"{key} has no effect: {use.why}"
        elif use is None and str(key).startswith(_PREFIXES):
            yield f"{key} is not known here, and has no effect"
