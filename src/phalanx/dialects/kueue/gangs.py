"""Translate Kueue's labels and annotations on jobs and pods to Phalanx's *options*, which are Phalanx's own labels and
annotations for the same settings.

A job with the label `kueue.x-k8s.io/queue-name` belongs to this dialect. If the job also has Phalanx's queue label,
Phalanx's label counts and the job does not belong to this dialect. A *pod group* of Kueue is a gang of bare pods. It is
complete when as many pods exist as the annotation `pod-group-total-count` states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.dialects.kueue import kinds

_OURS = "phalanx.dev/"
_QUEUE, _MIN, _SIZE, _JOB = (f"{_OURS}{word}" for word in ("queue", "min-available", "size", "job"))
_COMPLETIONS, _RESIZING = f"{_OURS}completions", f"{_OURS}resizing"
_REPLACES, _ROLE = f"{_OURS}replaces-failed", f"{_OURS}role"
_LWS = "leaderworkerset.sigs.k8s.io"
_SUBGROUP, _SUBGROUPS = f"{_OURS}subgroup", f"{_OURS}subgroups"
_CLOSE, _RATHER_CLOSE = f"{_OURS}role-closeness", f"{_OURS}role-preferred-closeness"
_SLICE = f"{_OURS}role-slice"
_SLICE_WORDS = ("size", "required-topology")
_NOTHING: Mapping[str, str] = {}
MIN_PARALLELISM = f"{kinds.PREFIX}job-min-parallelism"
FOLLOWING = f"{kinds.PREFIX}job-completions-equal-parallelism"
MAX_EXECUTION = f"{kinds.PREFIX}max-exec-time-seconds"
GROUP_NAME = f"{kinds.PREFIX}pod-group-name"
RETRIABLE = f"{kinds.PREFIX}retriable-in-group"
GROUP_COUNT = f"{kinds.PREFIX}pod-group-total-count"
LAYERS = f"{kinds.PREFIX}podset-slice-required-topology-constraints"
PREBUILT = f"{kinds.PREFIX}prebuilt-workload-name"
ELASTIC = f"{kinds.PREFIX}elastic-job"
GATED = f"{kinds.PREFIX}admission-gated-by"
EVICTED_AS = ("TerminationTarget", "WorkloadEvicted")  # type and reason of the condition that evicted pods get
ROLE_HASH = f"{kinds.PREFIX}role-hash"
# Options of a pod group that a LeaderWorkerSet or a StatefulSet creates: the set's name, the index of the group in the
# LeaderWorkerSet, and the uid of the StatefulSet.
SET_NAME, SET_INDEX = f"{kinds.PREFIX}job-owner-name", f"{kinds.PREFIX}component-workload-index"
STATEFUL_SET_UID = f"{kinds.PREFIX}job-uid"


# An annotation. If Kueue's Configuration sets manageJobsWithoutQueueName, an admission policy writes this annotation on
# jobs and pods that name no LocalQueue.
UNQUEUED = "kueue.phalanx.dev/unqueued"


class Layer(msgspec.Struct):
    """A layer of slices. A *slice* is a group of `size` pods that must be in one domain of the topology level
    `topology`."""

    topology: str
    size: int


def options_of(kind: str, meta: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the Phalanx options of an object. They are empty if the object has Phalanx's queue label. They are also
    empty if the object names no LocalQueue, unless Kueue's Configuration manages jobs without a queue name."""
    labels, annotations = meta.get("labels") or _NOTHING, meta.get("annotations") or _NOTHING
    name = labels.get(kinds.QUEUE_LABEL) or ""
    if _QUEUE in labels or not (name or annotations.get(UNQUEUED) == "true"):
        return _NOTHING
    found = {_QUEUE: kinds.local_queue(meta.get("namespace") or "default", str(name))}
    if priority := labels.get(kinds.PRIORITY_LABEL):
        found[kinds.PRIORITY_LABEL] = str(priority)
    if limit := labels.get(MAX_EXECUTION):
        found[MAX_EXECUTION] = str(limit)
    if prebuilt := annotations.get(PREBUILT) or labels.get(PREBUILT):
        found[PREBUILT] = str(prebuilt)
    if gates := annotations.get(GATED):
        found[GATED] = str(gates)
    if kind == "Pod":
        return found | _of_pod(meta, labels, annotations) | _topology(annotations)
    found |= {_SIZE: "in-steps"} if annotations.get(ELASTIC) == "true" else {_RESIZING: "requeue"}
    template: Mapping[str, Any] = meta.get("template") or _NOTHING
    found |= _topology(template.get("annotations") or _NOTHING)
    if kind == "Job" and (minimum := annotations.get(MIN_PARALLELISM)):
        found |= {_MIN: str(minimum), _SIZE: "fixed-at-start"}
    if kind == "Job" and annotations.get(FOLLOWING) == "true":
        found[_COMPLETIONS] = "equal-parallelism"
    return found


def _topology(annotations: Mapping[str, object]) -> dict[str, str]:
    """Return the topology options of one pod set. In Kueue and in Phalanx, a topology level is named by its node label.
    The pod sets of one pod set group share a topology request."""
    said = {how: annotations.get(f"{kinds.PREFIX}podset-{how}-topology") for how in ("required", "preferred")}
    level = {how: str(text) for how, text in said.items() if text}
    sliced = slices(annotations)
    found = {_SLICE: sliced} if sliced else {}
    if (group := annotations.get(f"{kinds.PREFIX}podset-group-name")) and level:
        words = {"required": "closeness", "preferred": "preferredCloseness"}
        one = {"name": str(group), **{words[how]: text for how, text in level.items()}}
        return found | {_SUBGROUP: str(group), _SUBGROUPS: json.dumps([one])}
    return found | {{"required": _CLOSE, "preferred": _RATHER_CLOSE}[how]: text for how, text in level.items()}


def slices(annotations: Mapping[str, object]) -> str:
    """Return the requested slices as a Phalanx option; empty if no slices are requested. An unreadable value is
    returned unchanged, so that the job waits and the reason shows the value."""
    if text := annotations.get(LAYERS):
        listed = layers(annotations)
        return ",".join(f"{one.size}@{one.topology}" for one in listed) if listed else str(text)
    said = [str(annotations.get(f"{kinds.PREFIX}podset-slice-{word}") or "") for word in _SLICE_WORDS]
    return "@".join(said) if any(said) else ""


def layers(annotations: Mapping[str, object]) -> list[Layer]:
    """Return the layers of slices from coarse to fine. The result is empty if there are no layers or if they cannot be
    read."""
    try:
        return msgspec.json.decode(str(annotations.get(LAYERS) or "[]"), type=list[Layer])
    except (msgspec.MsgspecError, ValueError):
        return []


def _group_of_set(labels: Mapping[str, object]) -> str:
    """Return the name of the LeaderWorkerSet group to which a pod belongs; empty if it belongs to none. Each of these
    groups is a gang."""
    parts = [str(labels.get(f"{_LWS}/{key}") or "") for key in ("name", "group-index", "template-revision-hash")]
    return "-".join(part for part in parts if part) if parts[0] and parts[1] else ""


def _of_pod(
    meta: Mapping[str, object], labels: Mapping[str, object], annotations: Mapping[str, object]
) -> dict[str, str]:
    of_set = _group_of_set(labels)
    group = labels.get(GROUP_NAME) or annotations.get(GROUP_NAME) or of_set
    if not group:
        return {}
    found = {_JOB: str(group), _MIN: str(annotations.get(GROUP_COUNT, ""))}
    if str(annotations.get(RETRIABLE, "")).lower() != "false":
        found[_REPLACES] = "true"
    if role := annotations.get(ROLE_HASH):
        found[_ROLE] = str(role)
    if group == of_set:
        return found | {SET_NAME: str(labels[f"{_LWS}/name"]), SET_INDEX: str(labels[f"{_LWS}/group-index"])}
    return found | _of_stateful_set(meta, str(group))


def _of_stateful_set(meta: Mapping[str, Any], group: str) -> dict[str, str]:
    """Return the options that describe the StatefulSet that creates a pod group's pods; empty if no StatefulSet creates
    them."""
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), _NOTHING)
    if owner.get("kind") != "StatefulSet" or owner.get("name") != group:
        return {}
    return {SET_NAME: group, STATEFUL_SET_UID: str(owner["uid"])}
