"""Gangs of a group: those that an annotation names together, on pods without an object or on PodGroups.

They are one gang of ours, with a role for each: all of them have their minimum, or none starts. They are of one
namespace: nobody joins the gangs of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.koordinator import kinds

JOB, ROLE = "phalanx.dev/job", "phalanx.dev/role"
# No Job and no pod has such a name.
MARK, ALONE, TOGETHER = f"{kinds.SIGS}:", "koordinator:", "koordinator-group:"
_MOST_GANGS: Final = 64  # of one group
_NOTHING: Mapping[str, Any] = {}


def together(text: Any, namespace: str, name: str) -> tuple[str, ...]:
    """Return the gangs of this namespace, by name, with which a gang is in a group; none: it is in none."""
    try:
        named = msgspec.json.decode(str(text), type=list[str]) if text else []
    except (msgspec.MsgspecError, RecursionError):
        return ()
    own = f"{namespace}/"
    found = sorted({one.removeprefix(own) for one in named if one.startswith(own) and "," not in one})
    return tuple(found) if name in found and 1 < len(found) <= _MOST_GANGS else ()


def of_pod_group(group: Object) -> tuple[str, ...]:
    """Return the PodGroups, by name, with which one is in a group; none: it is in none."""
    meta = group.get("metadata") or _NOTHING
    text = (meta.get("annotations") or _NOTHING).get(kinds.GANG_GROUPS)
    return together(text, str(meta.get("namespace")), str(meta.get("name"))) if text else ()


def grouped(pod_groups: Mapping[str, Object]) -> dict[str, tuple[str, ...]]:
    """Return the PodGroups that are in a group, by their key, and those with which they are."""
    return {key: others for key, group in pod_groups.items() if (others := of_pod_group(group))}


def words(name: str, others: tuple[str, ...]) -> Mapping[str, str]:
    """Return what the pods of a PodGroup say that is in a group."""
    return {JOB: _joined(others), ROLE: name}


def gang_of(group: Object) -> str:
    """Return the gang of a PodGroup's pods."""
    meta, others = group.get("metadata") or _NOTHING, of_pod_group(group)
    return f"{meta.get('namespace')}/{_joined(others) if others else MARK + str(meta.get('name'))}"


def _joined(others: tuple[str, ...]) -> str:
    return TOGETHER + ",".join(MARK + other for other in others)
