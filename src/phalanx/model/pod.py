"""A shape: everything about a pod that decides which node it fits.

Thousands of pods share a handful of shapes, so a shape is the unit of thinking: it is interned once when a job is
folded in, and what it fits is looked up per shape, not per pod. Amounts are exact integers: cpu in millicores, all
else in whole units (bytes, devices); a pod whose requests do not say how many `pods` asks one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

# Sorted (resource, amount) pairs without zeros: hashable, so that equal asks intern to one shape.
Amounts: TypeAlias = tuple[tuple[str, int], ...]

CPU, MEMORY, PODS = "cpu", "memory", "pods"


def amounts(values: Mapping[str, int]) -> Amounts:
    """The canonical form of a mapping resource -> amount."""
    return tuple(sorted((name, value) for name, value in values.items() if value))


class Operator(StrEnum):
    """Node selector operators of k8s.io/api/core/v1."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a node's labels; the key `metadata.name` with `field=True` is the node's name."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    field: bool = False


NodeTerm: TypeAlias = tuple[Requirement, ...]  # all must hold; an empty term matches no node


@dataclass(frozen=True, slots=True)
class Toleration:
    """As in k8s.io/api/core/v1: `operator` is Exists or Equal, empty `key` (with Exists) or `effect` means any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodePreference:
    """`weight` (1 to 100) is added to the score of nodes that match the term; among those that fit, more is better."""

    weight: int
    term: NodeTerm


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """Pods whose labels meet all requirements of `selector` (operators In, NotIn, Exists, DoesNotExist), in
    `namespaces`, on nodes of one domain of the label key `topology`. As PodAffinityTerm of k8s.io/api/core/v1."""

    topology: str
    selector: NodeTerm
    namespaces: tuple[str, ...] = ()
    weight: int = 0  # 0: required; 1 to 100: preferred


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """As TopologySpreadConstraint: over the domains of `topology`, the number of pods that meet `selector` differs by
    at most `max_skew`. Not `required` (ScheduleAnyway): as far as possible."""

    topology: str
    max_skew: int
    selector: NodeTerm
    required: bool = True
    min_domains: int = 1


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port; an empty `address` is every address of the node."""

    number: int
    protocol: str = "TCP"
    address: str = ""


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """Part of `count` devices of one resource, on each either `milli` thousandths of it or `memory_bytes` of it."""

    resource: str
    milli: int = 0
    memory_bytes: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """`selector` pairs must all hold; of `affinity` terms one must hold (no terms: anywhere). `labels` and `namespace`
    are the pod's own, by which others' `near`, `away` and `spread` select it. `aligned`: all that the pod asks comes
    from one NUMA zone of the node ("required"), or does where possible ("preferred")."""

    requests: Amounts
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[NodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    preferences: tuple[NodePreference, ...] = ()
    near: tuple[PodAffinityTerm, ...] = ()
    away: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    ports: tuple[HostPort, ...] = ()
    share: DeviceShare | None = None
    aligned: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
