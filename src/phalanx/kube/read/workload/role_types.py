"""The types of the fields that the scheduler reads when it reads a role of a framework's job as a batch/v1 Job.

The API server checks the types of a Job's fields, but not always those of a framework's job: the definition of the kind
may have no schema. Values of wrong types, such as a toleration whose key is a map, could crash the scheduler when they
are compared with other values. So a role with such a value counts as invalid."""

from __future__ import annotations

from typing import Annotated, TypedDict

import msgspec

from phalanx.client.connection import Object
from phalanx.kube.read.wire import epoch_s

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Words = dict[str, str] | None
_Texts = list[str] | None
_Amounts = dict[str, str | int | float] | None


class _Expression(TypedDict, total=False):
    key: str
    operator: str
    values: _Texts


class _Selector(TypedDict, total=False):
    matchLabels: _Words
    matchExpressions: list[_Expression] | None


class _NodeTerm(TypedDict, total=False):
    matchExpressions: list[_Expression] | None
    matchFields: list[_Expression] | None


class _NodeTerms(TypedDict, total=False):
    nodeSelectorTerms: list[_NodeTerm] | None


class _NodePreference(TypedDict, total=False):
    weight: Int32
    preference: _NodeTerm


class _NodeAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: _NodeTerms | None
    preferredDuringSchedulingIgnoredDuringExecution: list[_NodePreference] | None


class _PodTerm(TypedDict, total=False):
    topologyKey: str
    labelSelector: _Selector | None
    namespaceSelector: _Selector | None
    namespaces: _Texts
    matchLabelKeys: _Texts
    mismatchLabelKeys: _Texts


class _PodPreference(TypedDict, total=False):
    weight: Int32
    podAffinityTerm: _PodTerm


class _PodAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: list[_PodTerm] | None
    preferredDuringSchedulingIgnoredDuringExecution: list[_PodPreference] | None


class Affinity(TypedDict, total=False):
    nodeAffinity: _NodeAffinity | None
    podAffinity: _PodAffinity | None
    podAntiAffinity: _PodAffinity | None


class RoleToleration(TypedDict, total=False):
    key: str | None
    operator: str | None
    value: str | None
    effect: str | None
    tolerationSeconds: Int64 | None


class _Spread(TypedDict, total=False):
    topologyKey: str
    maxSkew: Int32
    minDomains: Int32 | None
    whenUnsatisfiable: str
    labelSelector: _Selector | None
    matchLabelKeys: _Texts
    nodeAffinityPolicy: str
    nodeTaintsPolicy: str


class _Resources(TypedDict, total=False):
    requests: _Amounts
    limits: _Amounts


class _Port(TypedDict, total=False):
    containerPort: Int32
    hostPort: Int32 | None
    hostIP: str | None
    protocol: str | None


class _Container(TypedDict, total=False):
    name: str
    ports: list[_Port] | None
    resources: _Resources | None
    restartPolicy: str | None


class _Named(TypedDict, total=False):
    name: str


class _Pod(TypedDict, total=False):
    affinity: Affinity | None
    containers: list[_Container] | None
    hostNetwork: bool | None
    initContainers: list[_Container] | None
    nodeSelector: _Words
    overhead: _Amounts
    preemptionPolicy: str | None
    priority: Int32 | None
    priorityClassName: str | None
    resourceClaims: list[_Named] | None
    resources: _Resources | None
    runtimeClassName: str | None
    schedulerName: str | None
    schedulingGates: list[_Named] | None
    tolerations: list[RoleToleration] | None
    topologySpreadConstraints: list[_Spread] | None
    volumes: list[dict[str, object]] | None


class _Meta(TypedDict, total=False):
    labels: _Words
    annotations: _Words


class Template(TypedDict, total=False):
    metadata: _Meta | None
    spec: _Pod


class _Spec(TypedDict, total=False):
    activeDeadlineSeconds: Int64 | None
    completions: Count | None
    managedBy: str | None
    parallelism: Count | None
    template: Template


class _Condition(TypedDict, total=False):
    type: str
    status: str
    lastTransitionTime: str | None


class _Status(TypedDict, total=False):
    conditions: list[_Condition] | None


def check_types(spec: Object, status: Object | None = None) -> None:
    """Check the spec of a role, in the form of a Job's spec. If a value has another type than the same field of a Job,
    or is out of range, raise a ValueError that names the field. `status`: the status of the framework's job; its
    conditions are checked too."""
    msgspec.convert(spec, type=_Spec)
    msgspec.convert(status, type=_Status | None)
    for condition in (status or {}).get("conditions") or ():
        epoch_s(condition.get("lastTransitionTime"))
