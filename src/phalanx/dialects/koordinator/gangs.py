"""Which pods are one gang, in our words, and what their PodGroup and quota say of it.

A gang is named, in this order, by the label `pod-group.scheduling.sigs.k8s.io` (a PodGroup), by the same with `/name`
(without an object), or by the annotation `gang.scheduling.koordinator.sh/name`. Of a gang without an object the oldest
pod counts, whatever the others say.

Gangs that name each other in `groups` are one gang of ours, with a role for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.dialects.frame import Claim, Object, Objects, Said
from phalanx.dialects.koordinator import kinds
from phalanx.dialects.koordinator.quotas import KoordinatorDefinitions
from phalanx.model.reason import Reason, ReasonCode

_OURS = "phalanx.dev/"
_QUEUE, _JOB, _MIN, _PREEMPTIBLE = (f"{_OURS}{word}" for word in ("queue", "job", "min-available", "preemptible"))
_NOTHING: Mapping[str, str] = {}
_MARK, _ALONE = f"{kinds.SIGS}:", "koordinator:"  # no Job and no pod has such a name
OBJECT = kinds.GROUP_LABEL  # the PodGroup of a pod, among its words
_LEAST = "koordinator/min-available"  # what a pod says of a gang without an object
_OTHERS = frozenset({"default-scheduler", "phalanx"})  # who names these is Koordinator's by its words alone


def words(meta: Mapping[str, Any], scheduler: str) -> Mapping[str, str]:
    """Return what a pod says, in our words; empty: it is for another scheduler."""
    labels, notes = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    if _JOB in labels or not (
        scheduler == kinds.SCHEDULER_NAME or (scheduler in _OTHERS and _is_theirs(labels, notes))
    ):
        return _NOTHING
    quota = str(labels.get(kinds.QUOTA_NAME) or "")
    found = {_QUEUE: kinds.said_quota(str(meta.get("namespace") or "default"), quota)}
    if str(labels.get(kinds.PREEMPTIBLE, "")).lower() == "false":
        found[_PREEMPTIBLE] = "false"
    return found | _gang(labels, notes)


def claim(defined: KoordinatorDefinitions, said: Said, objects: Objects) -> Claim | None:
    """Return what its quota and its PodGroup say of a gang; None: it is not Koordinator's."""
    named = kinds.quota_said(said.queue)
    if named is None:
        return None
    quota = defined.quota(*named)
    queue = kinds.tree_quota(quota) if quota else ""
    if quota and defined.quotas[quota].is_parent:
        text = f"the quota {quota} is a parent, which no pod may use: name one below it"
        return Claim(queue=queue, blocked=Reason(code=ReasonCode.INVALID, text=text))
    gang = said.options.get(_JOB, "")
    if not gang.startswith((_MARK, _ALONE)):
        return Claim(queue=queue, silent=not queue)
    if group := said.options.get(OBJECT):
        return _of_object(queue, group, objects.get(kinds.POD_GROUPS, {}).get(f"{said.namespace}/{group}"))
    text = said.options.get(_LEAST, "")
    if not text.isdecimal() or len(text) > 9:
        name = gang.removeprefix(_ALONE)
        why = (
            f"gang has not init: {name} says min-available {text[:60]!r}, which is no number: write how many must start"
        )
        return Claim(queue=queue, blocked=Reason(code=ReasonCode.INVALID, text=why))
    return Claim(queue=queue, options=_start(int(text)))


def gang_of(group: Object) -> str:
    """Return the gang of a PodGroup's pods."""
    meta = group.get("metadata") or _NOTHING
    return f"{meta.get('namespace')}/{_MARK}{meta.get('name')}"


# --- inside -----------------------------------------------------------------------------------------------------------


def _is_theirs(labels: Mapping[str, Any], notes: Mapping[str, Any]) -> bool:
    return kinds.GANG_NAME in notes or kinds.QUOTA_NAME in labels


def _gang(labels: Mapping[str, Any], notes: Mapping[str, Any]) -> dict[str, str]:
    if group := labels.get(kinds.GROUP_LABEL):
        return {_JOB: f"{_MARK}{group}", OBJECT: str(group)}
    if light := labels.get(kinds.LIGHT_LABEL):
        return {_JOB: f"{_ALONE}{light}", _LEAST: str(labels.get(kinds.LIGHT_MIN_LABEL, ""))}
    if name := notes.get(kinds.GANG_NAME):
        return {_JOB: f"{_ALONE}{name}", _LEAST: str(notes.get(kinds.GANG_MIN, ""))}
    return {}


def _of_object(queue: str, name: str, group: Object | None) -> Claim:
    if group is None:
        text = f"the PodGroup {name} of its pods does not exist yet: create it"
        return Claim(queue=queue, blocked=Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text))
    said = (group.get("spec") or {}).get("minMember")
    return Claim(queue=queue, options=_start(said if isinstance(said, int) else 0))


def _start(least: int) -> Mapping[str, str]:
    """With a minimum of 0 any pod goes."""
    return {_MIN: str(max(1, least))}
