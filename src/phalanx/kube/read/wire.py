"""The fields of pods and nodes that the scheduler reads. The watch decodes only these fields.

The scheduler needs only half of the fields of a pod, and a tenth of the fields of a node. It does not need managed
fields, environments, mounts, probes, container states or images, for example. Decoding only the declared fields saves
time and memory. The results are plain dictionaries, like those of a full decoding, so the same code reads both.

If new code of this package reads a further field, the field must be added here. The in-process API server of the tests
returns its objects through these types, so that a test of the new code fails if the field is missing. The names of the
fields are those of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, TypedDict

from phalanx.client.kind import NODES, PODS, Kind


class WireMeta(TypedDict, total=False):
    annotations: dict[str, str]
    creationTimestamp: str | None
    deletionGracePeriodSeconds: int | None
    deletionTimestamp: str | None
    finalizers: list[str]
    generation: int
    labels: dict[str, str]
    name: str
    namespace: str
    ownerReferences: list[Any]
    resourceVersion: str
    uid: str


class WireObject(TypedDict, total=False):
    """The fields that every object has. The last three fields belong to a Status object, which a watch delivers as its
    last event if it fails."""

    apiVersion: str
    kind: str
    metadata: WireMeta
    code: int
    reason: str
    message: str


class WireContainer(TypedDict, total=False):
    name: str
    ports: Any
    resizePolicy: Any
    resources: Any
    restartPolicy: str


class WirePodSpec(TypedDict, total=False):
    activeDeadlineSeconds: int | None
    affinity: Any
    containers: list[WireContainer]
    hostNetwork: bool
    hostname: str
    initContainers: list[WireContainer]
    nodeName: str
    nodeSelector: Any
    overhead: Any
    preemptionPolicy: str
    priority: int
    priorityClassName: str
    resourceClaims: Any
    resources: Any
    restartPolicy: str
    runtimeClassName: str
    schedulerName: str
    schedulingGates: list[Any]
    schedulingGroup: Any
    subdomain: str
    terminationGracePeriodSeconds: int
    tolerations: list[Any]
    topologySpreadConstraints: Any
    volumes: list[Any]
    workloadRef: Any


class WireContainerStatus(TypedDict, total=False):
    allocatedResources: Any
    name: str
    ready: bool
    resources: Any
    state: Any


class WirePodStatus(TypedDict, total=False):
    conditions: list[Any]
    containerStatuses: list[WireContainerStatus]
    initContainerStatuses: list[WireContainerStatus]
    message: str
    nominatedNodeName: str
    phase: str
    qosClass: str
    reason: str
    startTime: str | None


class WirePod(WireObject, total=False):
    spec: WirePodSpec
    status: WirePodStatus


class WireNodeStatus(TypedDict, total=False):
    allocatable: Any
    capacity: Any
    conditions: list[Any]


class WireNode(WireObject, total=False):
    spec: Any
    status: WireNodeStatus


WIRE_TYPES: Mapping[Kind, type] = {PODS: WirePod, NODES: WireNode}


GROUP_FIELDS = frozenset({"schedulingGroup", "workloadRef"})  # spec fields that name a pod's group


def with_group(meta: dict[str, object], spec: dict[str, object]) -> dict[str, object]:
    """Add the fields of a pod's spec that name its group (scheduling.k8s.io) to the pod's metadata. Return the
    metadata, unchanged if the spec has no such fields."""
    if GROUP_FIELDS.isdisjoint(spec):
        return meta
    return {**meta, "group": {key: spec[key] for key in sorted(GROUP_FIELDS) if key in spec}}


def with_priority(meta: dict[str, object], spec: dict[str, Any]) -> dict[str, object]:
    """Add the pod's priority class and the value of its priority to the pod's metadata. Return the metadata, unchanged
    if the spec has neither."""
    if "priorityClassName" not in spec and not spec.get("priority"):
        return meta
    return {**meta, "priority": (spec.get("priorityClassName") or "", int(spec.get("priority") or 0))}


@lru_cache(4096)  # most pods of a job are created in the same second
def epoch_s(text: str | None) -> float:
    """Convert a metav1.Time to seconds since the epoch; None is converted to 0."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0
