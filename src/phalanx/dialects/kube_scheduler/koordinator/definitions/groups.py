"""Groups of gangs that start together: an annotation lists them, on PodGroups or on pods without a PodGroup.

In Phalanx a group is one gang with a role for each of Koordinator's gangs: either all of them reach their minimum, or
none starts. All gangs of a group must be in one namespace, so that a user cannot join gangs of other namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kube_scheduler.koordinator import kinds

JOB, ROLE = "phalanx.dev/job", "phalanx.dev/role"
# Prefixes that cannot occur in the name of a Job or a pod.
MARK, ALONE, TOGETHER = f"{kinds.SIGS}:", "koordinator:", "koordinator-group:"
_MOST_GANGS: Final = 64  # the most gangs in one group
_NOTHING: Mapping[str, Any] = {}


def together(text: Any, namespace: str, name: str) -> tuple[str, ...]:
    """Return the names of all gangs in the group of the gang `name`, itself among them; none: it is in no group.
    `text`: the annotation that lists the group."""
    try:
        named = msgspec.json.decode(str(text), type=list[str]) if text else []
    except (msgspec.MsgspecError, RecursionError):
        return ()
    own = f"{namespace}/"
    found = sorted({one.removeprefix(own) for one in named if one.startswith(own) and "," not in one})
    return tuple(found) if name in found and 1 < len(found) <= _MOST_GANGS else ()


def of_pod_group(group: Object) -> tuple[str, ...]:
    """Return the names of all PodGroups in the group of this PodGroup, itself among them; none: it is in no group."""
    meta = group.get("metadata") or _NOTHING
    text = (meta.get("annotations") or _NOTHING).get(kinds.GANG_GROUPS)
    return together(text, str(meta.get("namespace")), str(meta.get("name"))) if text else ()


def grouped(pod_groups: Mapping[str, Object]) -> dict[str, tuple[str, ...]]:
    """Return key of each PodGroup that is in a group -> the names of all PodGroups in that group."""
    return {key: others for key, group in pod_groups.items() if (others := of_pod_group(group))}


def options_of(name: str, others: tuple[str, ...]) -> Mapping[str, str]:
    """Return the Phalanx labels for the pods of a PodGroup that is in a group. `others`: all PodGroups of the group."""
    return {JOB: _joined(others), ROLE: name}


def gang_of(group: Object) -> str:
    """Return the gang of a PodGroup's pods."""
    meta, others = group.get("metadata") or _NOTHING, of_pod_group(group)
    return f"{meta.get('namespace')}/{_joined(others) if others else MARK + str(meta.get('name'))}"


def _joined(others: tuple[str, ...]) -> str:
    return TOGETHER + ",".join(MARK + other for other in others)
