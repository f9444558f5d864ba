"""The types of the fields that determine where a pod may run (k8s.io/api/core/v1)."""

from __future__ import annotations

from typing import TypedDict

from phalanx.embedded.apiserver.registry.kinds.checks import LabelSelectorFields, RequirementFields


class NodeTermFields(TypedDict, total=False):
    matchExpressions: list[RequirementFields]
    matchFields: list[RequirementFields]


class NodeSelectorFields(TypedDict, total=False):
    nodeSelectorTerms: list[NodeTermFields]


class WeightedFields(TypedDict, total=False):
    weight: int


class WeightedNodeTerm(WeightedFields, total=False):
    preference: NodeTermFields


class NodeAffinityFields(TypedDict, total=False):
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedNodeTerm]
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelectorFields


class PodTermFields(TypedDict, total=False):
    labelSelector: LabelSelectorFields
    namespaces: list[str]
    namespaceSelector: LabelSelectorFields
    topologyKey: str


class WeightedPodTerm(WeightedFields, total=False):
    podAffinityTerm: PodTermFields


class PodAffinityFields(TypedDict, total=False):
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodTerm]
    requiredDuringSchedulingIgnoredDuringExecution: list[PodTermFields]


class AffinityFields(TypedDict, total=False):
    nodeAffinity: NodeAffinityFields
    podAffinity: PodAffinityFields
    podAntiAffinity: PodAffinityFields


class TolerationFields(TypedDict, total=False):
    effect: str
    key: str
    operator: str
    tolerationSeconds: int
    value: str


class TaintFields(TypedDict, total=False):
    effect: str
    key: str
    timeAdded: str
    value: str


class SpreadFields(TypedDict, total=False):
    labelSelector: LabelSelectorFields
    matchLabelKeys: list[str]
    maxSkew: int
    minDomains: int
    nodeAffinityPolicy: str
    nodeTaintsPolicy: str
    topologyKey: str
    whenUnsatisfiable: str


class GateFields(TypedDict, total=False):
    name: str
