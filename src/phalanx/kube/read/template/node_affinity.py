"""Read a pod's node constraints: node selector, required node affinity, tolerations; and detect unsupported fields.

The API is k8s.io/api/core/v1. Constraints by other pods are in `pod_affinity`, constraints by volumes in `volumes`. A
field that could leave a bound pod hanging (a device claim) is never guessed: such a pod is refused with a reason that
names an alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from phalanx.kube.read.template import pod_affinity
from phalanx.model.pod import NodePreference, NodeTerm, Operator, Requirement, Toleration
from phalanx.model.reason import Reason, ReasonCode

Spec = Mapping[str, Any]

# Tolerations that are left out. Admission adds these two to every pod (DefaultTolerationSeconds), and templates do not
# have them. They do not affect placement, because a node that is not ready has a NoSchedule taint as well. Without
# them, a template and its pods have the same shape.
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
    """Return the reason why Phalanx does not place pods with this spec; None if it does."""
    texts = list(_obstacles(spec))
    if not texts:
        return None
    return Reason(code=ReasonCode.UNSUPPORTED, text="; ".join(texts), numbers={"count": len(texts)})


def _obstacles(spec: Spec) -> Iterator[str]:
    if claims := [claim["name"] for claim in spec.get("resourceClaims") or ()]:
        yield (
            f"resource claims {_names(claims)} are not understood (DRAUnsupported): ask for the device as an extended "
            "resource such as nvidia.com/gpu"
        )
    yield from pod_affinity.unsupported_terms(spec)


def _names(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)
