"""Read a pod's constraints on its node (node selector, required node affinity, tolerations), and detect fields that
Phalanx does not support.

The format is that of k8s.io/api/core/v1. The module `volumes` reads the constraints that volumes put on the node.
Phalanx never ignores a field that could prevent a bound pod from starting, such as a device claim: a pod with such a
field is refused with a reason that names an alternative.

The module also reads a pod's requirements on other pods, and requirements on its node that are not resources: pod
affinity, topology spread, host ports, a part of a GPU.

All of these constraints and requirements become fields of `Shape`.

A pod is refused if it has fields that `Shape` cannot express: a namespace selector that is not empty, `matchLabelKeys`,
and topology spread constraints with node policies other than the defaults. For each such field, `unsupported_terms`
yields a message that names an alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from phalanx.client.quantity import QuantityError, parse, whole
from phalanx.kube.read.labels import GPU_COUNT, GPU_FRACTION, GPU_MEMORY
from phalanx.model.pod import (
    ALL_NAMESPACES,
    MAX_DEVICES,
    DeviceShare,
    HostPort,
    NodePreference,
    NodeTerm,
    Operator,
    PodAffinityTerm,
    Requirement,
    Toleration,
    TopologySpread,
)
from phalanx.model.reason import Reason, ReasonCode

Spec = Mapping[str, Any]

_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_GPU = "nvidia.com/gpu"
_EVERY = "0.0.0.0"  # noqa: S104 (a value in pods; nothing listens on it)


def affinity_terms(spec: Spec) -> tuple[PodAffinityTerm, ...]:
    return tuple(_terms((spec.get("affinity") or {}).get("podAffinity") or {}))


def anti_affinity_terms(spec: Spec) -> tuple[PodAffinityTerm, ...]:
    return tuple(_terms((spec.get("affinity") or {}).get("podAntiAffinity") or {}))


def _terms(rules: Spec) -> Iterator[PodAffinityTerm]:
    for term in rules.get(_REQUIRED) or ():
        yield _term(term, 0)
    for rule in rules.get(_PREFERRED) or ():
        yield _term(rule["podAffinityTerm"], int(rule["weight"]))


def _term(term: Spec, weight: int) -> PodAffinityTerm:
    everywhere = term.get("namespaceSelector") is not None
    namespaces = (ALL_NAMESPACES,) if everywhere else tuple(sorted(term.get("namespaces") or ()))
    return PodAffinityTerm(term["topologyKey"], _selector(term.get("labelSelector")), namespaces, weight)


def _selector(selector: Spec | None) -> NodeTerm:
    """Translate a metav1.LabelSelector. The selector None selects no pods."""
    if selector is None:
        return (Requirement("phalanx.dev/nothing", Operator.IN, ()),)
    pairs = sorted((selector.get("matchLabels") or {}).items())
    rules = selector.get("matchExpressions") or ()
    return (
        *(Requirement(key, Operator.IN, (str(value),)) for key, value in pairs),
        *(Requirement(one["key"], Operator(one["operator"]), tuple(one.get("values") or ())) for one in rules),
    )


def topology_spread(spec: Spec) -> tuple[TopologySpread, ...]:
    return tuple(
        TopologySpread(
            topology=rule["topologyKey"],
            max_skew=int(rule["maxSkew"]),
            selector=_selector(rule.get("labelSelector")),
            required=rule.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
            min_domains=int(rule.get("minDomains") or 1),
        )
        for rule in spec.get("topologySpreadConstraints") or ()
    )


def host_ports(spec: Spec) -> tuple[HostPort, ...]:
    found = set()
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port["containerPort"] if spec.get("hostNetwork") else 0)
            if number:
                address = port.get("hostIP") or ""
                found.add(HostPort(int(number), port.get("protocol") or "TCP", "" if address == _EVERY else address))
    return tuple(sorted(found, key=lambda port: (port.number, port.protocol, port.address)))


def device_share(annotations: Mapping[str, str]) -> DeviceShare | None:
    """Return the share of a GPU that the pod requests. If it requests a share of several GPUs, this is its share of
    each. Return None if the pod requests whole GPUs only. Raises ValueError for an invalid annotation."""
    fraction, memory = annotations.get(GPU_FRACTION), annotations.get(GPU_MEMORY)
    if fraction is None and memory is None:
        return None
    if fraction is not None and memory is not None:
        raise ValueError(f"it sets {GPU_FRACTION} and {GPU_MEMORY}: set only one of them")
    if not (text := annotations.get(GPU_COUNT, "1")).isdecimal() or not 0 < int(text[:9]) <= MAX_DEVICES:
        raise ValueError(f"{GPU_COUNT} {text!r} is not a number of GPUs: write 1 to {MAX_DEVICES}")
    count = int(text)
    try:
        if fraction is not None:
            milli = int(parse(fraction) * 1000)
            if not 0 < milli < 1000:
                raise ValueError(
                    f"{GPU_FRACTION} {fraction!r} is not from 0.001 to 0.999: request {_GPU} for whole devices"
                )
            return DeviceShare(resource=_GPU, milli=milli, count=count)
        assert memory is not None
        if (size := whole(memory)) <= 0:
            raise ValueError(f"{GPU_MEMORY} {memory!r} is not greater than 0: write for instance 8Gi")
        return DeviceShare(resource=_GPU, memory_bytes=size, count=count)
    except QuantityError as error:
        raise ValueError(f"{GPU_FRACTION if fraction is not None else GPU_MEMORY}: {error}") from None


def selector_keys(terms: Iterable[PodAffinityTerm | TopologySpread]) -> Iterator[str]:
    """Return the keys of the labels by which these terms select pods."""
    return (requirement.key for term in terms for requirement in term.selector)


def unsupported_terms(spec: Spec) -> Iterator[str]:
    """Yield a message about each field of the spec that Phalanx does not support."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = [*(rules.get(_REQUIRED) or ()), *(rule["podAffinityTerm"] for rule in rules.get(_PREFERRED) or ())]
        if any(term.get("namespaceSelector") for term in terms):
            yield f"a namespaceSelector of {kind} is supported only if it is empty: name the namespaces, or write {{}}"
        if any(term.get("matchLabelKeys") or term.get("mismatchLabelKeys") for term in terms):
            yield f"matchLabelKeys of {kind} are not supported: write the labels into the labelSelector"
    for rule in spec.get("topologySpreadConstraints") or ():
        where = f"the topology spread over {rule.get('topologyKey')}"
        if rule.get("matchLabelKeys"):
            yield f"matchLabelKeys of {where} are not supported: write the labels into the labelSelector"
        if rule.get("nodeAffinityPolicy", "Honor") != "Honor" or rule.get("nodeTaintsPolicy", "Ignore") != "Ignore":
            yield f"node policies of {where} are not supported: leave them out"


# The keys of two tolerations that a shape does not contain. The admission plug-in DefaultTolerationSeconds adds both to
# every pod, but not to templates. They do not affect placement, because a node that is not ready has a NoSchedule taint
# as well. Without them, a template and its pods have the same shape.
_PASSING = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def node_selector(spec: Spec) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((spec.get("nodeSelector") or {}).items()))


def required_node_affinity(spec: Spec) -> tuple[NodeTerm, ...]:
    """Return the terms of the required node affinity; a node must satisfy one of them."""
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return tuple(node_term(one) for one in required.get("nodeSelectorTerms") or ())


def preferred_node_affinity(spec: Spec) -> tuple[NodePreference, ...]:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    rules = node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(NodePreference(int(rule["weight"]), node_term(rule["preference"])) for rule in rules)


def node_term(said: Mapping[str, Any]) -> NodeTerm:
    labels = [_requirement(entry, field=False) for entry in said.get("matchExpressions") or ()]
    fields = [_requirement(entry, field=True) for entry in said.get("matchFields") or ()]
    return (*labels, *fields)


def _requirement(entry: Mapping[str, Any], *, field: bool) -> Requirement:
    return Requirement(entry["key"], Operator(entry["operator"]), tuple(entry.get("values") or ()), field)


def tolerations(spec: Spec) -> tuple[Toleration, ...]:
    found = {
        Toleration(
            key=entry.get("key") or "",
            operator=entry.get("operator") or "Equal",
            value=entry.get("value") or "",
            effect=entry.get("effect") or "",
        )
        for entry in spec.get("tolerations") or ()
        if not (entry.get("key") in _PASSING and "tolerationSeconds" in entry)
    }
    return tuple(sorted(found, key=lambda t: (t.key, t.operator, t.value, t.effect)))


def unsupported(spec: Spec) -> Reason | None:
    """Return the reason why Phalanx does not place pods with this spec; None if Phalanx can place them."""
    texts = list(_obstacles(spec))
    if not texts:
        return None
    return Reason(code=ReasonCode.UNSUPPORTED, text="; ".join(texts), numbers={"count": len(texts)})


def _obstacles(spec: Spec) -> Iterator[str]:
    if claims := [claim["name"] for claim in spec.get("resourceClaims") or ()]:
        yield (
            f"resource claims {_names(claims)} are not supported (DRAUnsupported): request the device as an "
            "extended resource such as nvidia.com/gpu"
        )
    yield from unsupported_terms(spec)


def _names(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)
