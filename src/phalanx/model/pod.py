"""The shape of a pod: everything that decides which nodes the pod fits and how much its queue is charged.

Thousands of pods often have only a few different shapes. So the core computes the suitable nodes once for each shape.
Requests are exact integers: cpu in millicores, other resources in whole units (bytes, devices). If the requests of a
pod do not name the resource `pods`, the pod requests 1 of it. The amounts that a queue is charged for a pod may include
a part of a device. Such parts are exact fractions, so that no remainder is left when the charge is released.

`shape_error` reports a shape that the Kubernetes API would not accept, for example a weight outside of 1 to 100,
a `maxSkew` or `minDomains` below 1, or a port outside of 1 to 65535. It also reports a request for a share that
no device can provide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias

Amount: TypeAlias = int | Fraction


def json_number(amount: Amount) -> int | float:
    """Return the amount as a number for JSON: an integer, or a float if it includes a part of a device."""
    return int(amount) if amount == int(amount) else float(amount)


def format_amount(resource: str, amount: Amount) -> str:
    """Return the amount as text in the usual notation: cpu in cores, bytes with a binary suffix, other resources as a
    number.

    Bytes are rounded to four digits and parts of devices to thousandths; other amounts are exact."""
    if resource == CPU:
        sign, milli = "-" if amount < 0 else "", abs(round(amount))
        return f"{sign}{milli // 1000}.{milli % 1000:03}".rstrip("0").rstrip(".")
    if isinstance(amount, Fraction) and amount.denominator != 1:
        return f"{float(amount):.3f}".rstrip("0").rstrip(".")
    if not (resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")):
        return str(amount)
    for suffix, unit in (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if not -unit < amount < unit:
            return f"{float(amount / unit):.4g}{suffix}"
    return str(amount)


# Sorted (resource, amount) pairs without zeros. These tuples are hashable, so that shapes with equal requests can be
# recognised.
Amounts: TypeAlias = tuple[tuple[str, int], ...]

CPU, MEMORY, PODS = "cpu", "memory", "pods"


def amounts(values: Mapping[str, int]) -> Amounts:
    """Return the amounts in the form of `Amounts`: sorted pairs without zeros. `values`: resource -> amount."""
    return tuple(sorted((name, value) for name, value in values.items() if value))


class Operator(StrEnum):
    """The operators of requirements in node selectors, as in k8s.io/api/core/v1."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on a label of a node or pod. If `field` is True and the key is `metadata.name`, it is a condition on
    the name of a node."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    field: bool = False


NodeTerm: TypeAlias = tuple[Requirement, ...]  # a node must meet all requirements; an empty term matches no node


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration as in k8s.io/api/core/v1. `operator` is Exists or Equal; an empty `key` (with Exists) matches every
    key, and an empty `effect` every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodePreference:
    """A preferred node affinity: the score of nodes that match `term` is higher by `weight` (1 to 100)."""

    weight: int
    term: NodeTerm


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """A term of pod affinity or anti-affinity, with the meaning of PodAffinityTerm in k8s.io/api/core/v1.

    The term selects pods in `namespaces` (if empty: in the pod's own namespace) whose labels meet all requirements
    of `selector` (In, NotIn, Exists, DoesNotExist). The nodes with the same value of the label key `topology` are
    one domain."""

    topology: str
    selector: NodeTerm
    namespaces: tuple[str, ...] = ()
    weight: int = 0  # 0: required; 1 to 100: preferred


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """A topology spread constraint, with the meaning of TopologySpreadConstraint in k8s.io/api/core/v1.

    Between any two domains of `topology`, the number of pods that match `selector` differs by at most `max_skew`. If
    the constraint is not `required` (ScheduleAnyway), it is only a preference."""

    topology: str
    max_skew: int
    selector: NodeTerm
    required: bool = True
    min_domains: int = 1


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port. An empty `address` means every address of the node."""

    number: int
    protocol: str = "TCP"
    address: str = ""


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """A request for a share of `count` devices of one resource: either `milli` thousandths or `memory_bytes` of each
    device."""

    resource: str
    milli: int = 0
    memory_bytes: int = 0
    count: int = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """The requests and constraints of a pod. For the scheduler, there is no difference between two pods of the same
    shape.

    `requests`: the pod's resource requests.
    `selector`: (label key, value) pairs that the node must have.
    `affinity`: required node affinity: the node must match at least one of these terms; if empty, every node matches.
    `near`, `away`: pod affinity and anti-affinity, required or preferred.
    `labels`, `namespace`: the pod's labels and namespace, which the affinity terms of other pods select.
    `share`: the requested share of devices.
    `charged`: the amounts that queues are charged for the pod; None if these are its requests. The node is always
    charged for the requests.
    `aligned`: "required" if all requests must come from one NUMA zone of the node, "preferred" if they should.
    `within`: further (label key, value) pairs that the node must have, because the other pods of the gang are on nodes
    with these labels. They are not part of the pod's own selector, so topology spread (`spread`) ignores them."""

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
    within: tuple[tuple[str, str], ...] = ()
    charged: Amounts | None = None


MILLI = 1000
ZONE = "zone/"


# Nine petabytes, or nine trillion cores. No node has this amount, and the sum over a thousand pods with this amount is
# still in the range of an int64.
MAX_AMOUNT = 2**53
Costs: TypeAlias = tuple[tuple[str, Amount], ...]


def with_pod_count(requests: Amounts) -> Amounts:
    """Return the amounts that a pod with these requests takes on its node: the requests and, if they do not name the
    resource `pods`, 1 of that resource."""
    held = bounded_amounts(requests)
    return held if any(resource == PODS for resource, _ in held) else tuple(sorted((*held, (PODS, 1))))


def bounded_amounts(requests: Amounts) -> Amounts:
    """Return the amounts above zero, each at most `MAX_AMOUNT`."""
    return tuple((resource, min(amount, MAX_AMOUNT)) for resource, amount in requests if amount > 0)


def with_device_share(asks: Amounts, share: DeviceShare) -> Costs:
    """Return the amounts that count against quota for a pod with these requests and this share of devices.

    A share in bytes of memory counts as a whole device. Its fraction depends on the memory of the chosen device, but
    quota is checked before a device is chosen."""
    part = Fraction(max(0, share.milli), 1000) if share.milli and not share.memory_bytes else Fraction(1)
    costs: dict[str, Amount] = dict(asks)
    costs[share.resource] = costs.get(share.resource, 0) + min(Fraction(MAX_AMOUNT), part * max(0, share.count))
    return tuple(sorted(costs.items()))


ALL_NAMESPACES = "*"
MAX_WEIGHT = 100
MAX_PORT = 65_535
MAX_DEVICES = 1024
PROTOCOLS = ("TCP", "UDP", "SCTP")
ALIGNMENTS = ("", "required", "preferred")


def shape_error(shape: Shape) -> str:
    """Return the first error of the shape as a sentence; "" if there is none."""
    return next(shape_errors(shape), "")


def shape_errors(shape: Shape) -> Iterator[str]:
    """Yield all errors of the shape."""
    for preference in shape.preferences:
        if not 1 <= preference.weight <= MAX_WEIGHT:
            yield f"a preference of nodes has the weight {preference.weight}, which is not within 1 to {MAX_WEIGHT}"
    for term in (*shape.near, *shape.away):
        yield from term_errors(term)
    for spread in shape.spread:
        yield from spread_errors(spread)
    yield from port_errors(shape.ports)
    if shape.share is not None:
        yield from share_errors(shape.share, dict(shape.requests))
    if shape.aligned not in ALIGNMENTS:
        yield f"its NUMA alignment is {shape.aligned!r}, which is neither required nor preferred"


def term_errors(term: PodAffinityTerm) -> Iterator[str]:
    """Yield the errors of a pod affinity term."""
    if not term.topology:
        yield "an affinity of pods names no topology"
    if not 0 <= term.weight <= MAX_WEIGHT:
        yield f"an affinity of pods has the weight {term.weight}, which is not within 1 to {MAX_WEIGHT}"
    yield from selector_errors(term.selector)


def spread_errors(spread: TopologySpread) -> Iterator[str]:
    """Yield the errors of a topology spread constraint."""
    if not spread.topology:
        yield "a spread names no topology"
    if spread.max_skew < 1:
        yield f"a spread over {spread.topology} allows a skew of {spread.max_skew}, which is less than 1"
    if spread.min_domains < 1:
        yield f"a spread over {spread.topology} requires at least {spread.min_domains} domains, which is less than 1"
    if spread.min_domains > 1 and not spread.required:
        yield f"a spread over {spread.topology} is only preferred, so it cannot require a number of domains"
    yield from selector_errors(spread.selector)


def selector_errors(selector: tuple[Requirement, ...]) -> Iterator[str]:
    """Yield the errors of a pod selector: operators (Gt, Lt) and fields that are only allowed in selectors of nodes."""
    for requirement in selector:
        if requirement.operator in {Operator.GT, Operator.LT} or requirement.field:
            yield f"a selector of pods has {requirement.key} {requirement.operator}, which is allowed for nodes only"


def port_errors(ports: tuple[HostPort, ...]) -> Iterator[str]:
    """Yield the errors of a pod's host ports."""
    for port in ports:
        if not 1 <= port.number <= MAX_PORT:
            yield f"host port {port.number} is not within 1 to {MAX_PORT}"
        if port.protocol not in PROTOCOLS:
            known = ", ".join(PROTOCOLS)
            yield f"host port {port.number} has the protocol {port.protocol!r}, which is not one of {known}"
    if len(set(ports)) < len(ports):
        yield "it requests the same host port twice"


def share_errors(share: DeviceShare, requests: dict[str, int]) -> Iterator[str]:
    """Yield the errors of a share of devices. `requests`: the pod's requests, which may not also request whole devices
    of the same resource."""
    if not share.resource:
        yield "a share names no kind of device"
    if bool(share.milli) == bool(share.memory_bytes):
        yield f"a share of {share.resource} must set either thousandths or memory, but not both"
    if share.milli and not 0 < share.milli <= MILLI:
        yield f"a share of {share.resource} requests {share.milli}/1000 of a device"
    if share.memory_bytes < 0:
        yield f"a share of {share.resource} requests {share.memory_bytes} bytes"
    if not 1 <= share.count <= MAX_DEVICES:
        yield f"a share is of {share.count} devices of {share.resource}, which is not within 1 to {MAX_DEVICES}"
    if requests.get(share.resource, 0) > 0:
        yield f"it requests both whole and shared devices of {share.resource}"
