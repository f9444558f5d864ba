"""What is wrong with a shape's wishes, in words: such a job is refused, not misread.

The bounds are those of the Kubernetes API (weights 1 to 100, `maxSkew` and `minDomains` from 1, ports from 1 to 65535),
and of devices: a share is a part of at most one device each, by thousandths or by bytes."""

from __future__ import annotations

from collections.abc import Iterator

from phalanx.model.pod import DeviceShare, HostPort, Operator, PodAffinityTerm, Requirement, Shape, TopologySpread
from phalanx.state.nodes.devices import MILLI

MAX_WEIGHT = 100
MAX_PORT = 65_535
MAX_DEVICES = 1024
PROTOCOLS = ("TCP", "UDP", "SCTP")
ALIGNMENTS = ("", "required", "preferred")


def shape_error(shape: Shape) -> str:
    """The first fault; empty: there is none."""
    return next(shape_errors(shape), "")


def shape_errors(shape: Shape) -> Iterator[str]:
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
        yield f"it asks to be aligned {shape.aligned!r}, which is neither required nor preferred"


def term_errors(term: PodAffinityTerm) -> Iterator[str]:
    if not term.topology:
        yield "an affinity of pods names no topology"
    if not 0 <= term.weight <= MAX_WEIGHT:
        yield f"an affinity of pods has the weight {term.weight}, which is not within 1 to {MAX_WEIGHT}"
    yield from selector_errors(term.selector)


def spread_errors(spread: TopologySpread) -> Iterator[str]:
    if not spread.topology:
        yield "a spread names no topology"
    if spread.max_skew < 1:
        yield f"a spread over {spread.topology} allows a skew of {spread.max_skew}, which is less than 1"
    if spread.min_domains < 1:
        yield f"a spread over {spread.topology} asks at least {spread.min_domains} domains, which is less than 1"
    if spread.min_domains > 1 and not spread.required:
        yield f"a spread over {spread.topology} is only preferred and cannot ask a number of domains"
    yield from selector_errors(spread.selector)


def selector_errors(selector: tuple[Requirement, ...]) -> Iterator[str]:
    for requirement in selector:
        if requirement.operator in {Operator.GT, Operator.LT} or requirement.field:
            yield f"a selector of pods asks {requirement.key} {requirement.operator}, which is for nodes only"


def port_errors(ports: tuple[HostPort, ...]) -> Iterator[str]:
    for port in ports:
        if not 1 <= port.number <= MAX_PORT:
            yield f"host port {port.number} is not within 1 to {MAX_PORT}"
        if port.protocol not in PROTOCOLS:
            yield f"host port {port.number} has the protocol {port.protocol!r}, which is none of {', '.join(PROTOCOLS)}"
    if len(set(ports)) < len(ports):
        yield "it asks the same host port twice"


def share_errors(share: DeviceShare, requests: dict[str, int]) -> Iterator[str]:
    if not share.resource:
        yield "a share names no kind of device"
    if bool(share.milli) == bool(share.memory_bytes):
        yield f"a share of {share.resource} is stated neither by thousandths nor by memory, or by both"
    if share.milli and not 0 < share.milli <= MILLI:
        yield f"a share of {share.resource} asks {share.milli}/1000 of a device"
    if share.memory_bytes < 0:
        yield f"a share of {share.resource} asks {share.memory_bytes} bytes"
    if not 1 <= share.count <= MAX_DEVICES:
        yield f"a share is of {share.count} devices of {share.resource}, which is not within 1 to {MAX_DEVICES}"
    if requests.get(share.resource, 0) > 0:
        yield f"it asks {share.resource} both whole and shared"
