"""Numatopologies: the NUMA zones of nodes, with the cpus of each.

Volcano's resource-exporter writes one object per node, with the node's name. The free part of a zone (`numares`) is not
read, because it changes with every pod and follows from the pods. A cpu without a zone is left out.


Source: staging/src/volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1/numatopo_types.go of v1.15.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from phalanx.dialects.frame.dialect import Object
from phalanx.model.node import Zone

_MILLI: Final = 1000
_MOST_NODES: Final = 1 << 14  # the size of the cache; objects change often, and many nodes have equal zones


def read_zones(objects: Mapping[str, Object]) -> Mapping[str, tuple[Zone, ...]]:
    """Return the zones of each node with zones."""
    found = {name: _zones(_detail(obj)) for name, obj in objects.items()}
    return {name: zones for name, zones in found.items() if zones}


# --- inside -----------------------------------------------------------------------------------------------------------


def _detail(obj: Object) -> bytes:
    return msgspec.json.encode((obj.get("spec") or {}).get("cpuDetail") or {})


@lru_cache(maxsize=_MOST_NODES)
def _zones(detail: bytes) -> tuple[Zone, ...]:
    cpus: Mapping[str, Any] = msgspec.json.decode(detail, type=dict[str, Any])
    said = [each.get("numa") for each in cpus.values() if isinstance(each, Mapping)]
    counts = Counter(zone for zone in said if isinstance(zone, int))
    return tuple(Zone(name=str(zone), allocatable=(("cpu", counts[zone] * _MILLI),)) for zone in sorted(counts))
