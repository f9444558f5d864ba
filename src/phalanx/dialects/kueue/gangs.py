"""What Kueue's users write on jobs and pods, in our words.

A job is Kueue's by the label `kueue.x-k8s.io/queue-name`; where it names a queue of ours as well, ours counts. A pod
group is a gang of bare pods that is complete with `pod-group-total-count` of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.dialects.kueue import kinds

_OURS = "phalanx.dev/"
_QUEUE, _MIN, _SIZE, _JOB = (f"{_OURS}{word}" for word in ("queue", "min-available", "size", "job"))
_REPLACES = f"{_OURS}replaces-failed"
_LWS = "leaderworkerset.sigs.k8s.io"
_CLOSE, _RATHER_CLOSE, _SLICE = (f"{_OURS}{word}" for word in ("role-closeness", "role-preferred-closeness", "slice"))
_SLICE_WORDS = ("required-topology", "size")
_NOTHING: Mapping[str, str] = {}
MIN_PARALLELISM = f"{kinds.PREFIX}job-min-parallelism"
MAX_EXECUTION = f"{kinds.PREFIX}max-exec-time-seconds"
GROUP_NAME = f"{kinds.PREFIX}pod-group-name"
RETRIABLE = f"{kinds.PREFIX}retriable-in-group"
GROUP_COUNT = f"{kinds.PREFIX}pod-group-total-count"


def words(kind: str, meta: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what an object of that kind says in our words; empty: it names no LocalQueue, or a queue of ours."""
    labels = meta.get("labels") or _NOTHING
    name = labels.get(kinds.QUEUE_LABEL)
    if not name or _QUEUE in labels:
        return _NOTHING
    annotations = meta.get("annotations") or _NOTHING
    found = {_QUEUE: kinds.local_queue(meta.get("namespace") or "default", str(name))}
    if priority := labels.get(kinds.PRIORITY_LABEL):
        found[kinds.PRIORITY_LABEL] = str(priority)
    if limit := labels.get(MAX_EXECUTION):
        found[MAX_EXECUTION] = str(limit)
    if kind == "Pod":
        return found | _of_pod(labels, annotations) | _topology(annotations)
    template: Mapping[str, Any] = meta.get("template") or _NOTHING
    found |= _topology(template.get("annotations") or _NOTHING)
    if kind == "Job" and (minimum := annotations.get(MIN_PARALLELISM)):
        found |= {_MIN: str(minimum), _SIZE: "fixed-at-start"}
    return found


def _topology(annotations: Mapping[str, Any]) -> dict[str, str]:
    """How close the pods of one pod set are to be. A level of theirs is a node label, as one of ours is."""
    words = ((_CLOSE, "required"), (_RATHER_CLOSE, "preferred"))
    said = {key: annotations.get(f"{kinds.PREFIX}podset-{word}-topology") for key, word in words}
    found = {key: str(level) for key, level in said.items() if level}
    level, size = (str(annotations.get(f"{kinds.PREFIX}podset-slice-{word}") or "") for word in _SLICE_WORDS)
    return found | ({_SLICE: f"{size}@{level}"} if level and size else {})


def _group_of_set(labels: Mapping[str, Any]) -> str:
    """A group of a LeaderWorkerSet: each is a gang; empty: it is of none."""
    parts = [str(labels.get(f"{_LWS}/{key}") or "") for key in ("name", "group-index", "template-revision-hash")]
    return "-".join(part for part in parts if part) if parts[0] and parts[1] else ""


def _of_pod(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> dict[str, str]:
    group = labels.get(GROUP_NAME) or annotations.get(GROUP_NAME) or _group_of_set(labels)
    if not group:
        return {}
    final = str(annotations.get(RETRIABLE, "")).lower() == "false"
    kept = {} if final else {_REPLACES: "true"}
    return {_JOB: str(group), _MIN: str(annotations.get(GROUP_COUNT, "")), **kept}
