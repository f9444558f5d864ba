"""What of pods and nodes the scheduler looks at: the watch decodes this, and passes over the rest.

Half of a pod and nine tenths of a node are of no interest here: who manages which field, environments, mounts, probes,
the states of containers, images. Decoding only what is declared below takes less time, and keeps less in memory, the
more there is of the rest. What comes out are plain dictionaries, as where everything is decoded: nobody need know.

A field that code of this package begins to read has to be added here. The double of the API in the tests hands out its
objects through these types, so that the test of new code fails where that was forgotten. (Names are those of the API.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from phalanx.client.kind import NODES, PODS, Kind


class Meta(TypedDict, total=False):
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


class Told(TypedDict, total=False):
    """What every object says of itself; the last three are those of a Status, which ends a watch."""

    apiVersion: str
    kind: str
    metadata: Meta
    code: int
    reason: str
    message: str


class Container(TypedDict, total=False):
    name: str
    ports: Any
    resizePolicy: Any
    resources: Any
    restartPolicy: str


class PodSpec(TypedDict, total=False):
    activeDeadlineSeconds: int | None
    affinity: Any
    containers: list[Container]
    hostNetwork: bool
    hostname: str
    initContainers: list[Container]
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
    subdomain: str
    terminationGracePeriodSeconds: int
    tolerations: list[Any]
    topologySpreadConstraints: Any
    volumes: list[Any]


class ContainerStatus(TypedDict, total=False):
    allocatedResources: Any
    name: str
    ready: bool
    resources: Any


class PodStatus(TypedDict, total=False):
    conditions: list[Any]
    containerStatuses: list[ContainerStatus]
    initContainerStatuses: list[ContainerStatus]
    message: str
    nominatedNodeName: str
    phase: str
    qosClass: str
    reason: str
    startTime: str | None


class Pod(Told, total=False):
    spec: PodSpec
    status: PodStatus


class NodeStatus(TypedDict, total=False):
    allocatable: Any
    capacity: Any
    conditions: list[Any]


class Node(Told, total=False):
    spec: Any
    status: NodeStatus


LEAN: Mapping[Kind, type] = {PODS: Pod, NODES: Node}
