"""Validate the fields that determine where a pod may run: affinities, tolerations, taints, spread constraints and
scheduling gates. Pods, pod templates and nodes share these checks.

The strategies of priority classes and runtime classes are also here. Source: pkg/apis/scheduling/validation,
pkg/apis/node/validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds import checks
from phalanx.embedded.apiserver.registry.kinds.checks import (
    EXISTS_HAS_NONE,
    IMMUTABLE,
    IN_NEEDS_VALUES,
    Found,
    RequirementFields,
    chosen,
    formatted,
    label_selector,
)
from phalanx.embedded.apiserver.registry.kinds.nodes.fields import (
    AffinityFields,
    GateFields,
    NodeAffinityFields,
    NodeSelectorFields,
    NodeTermFields,
    PodAffinityFields,
    PodTermFields,
    SpreadFields,
    TaintFields,
    TolerationFields,
    WeightedFields,
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
KEY_EMPTY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(found: Found, given: AffinityFields | None, path: str) -> None:
    if not given:
        return
    if node := given.get("nodeAffinity"):
        _node_affinity(found, node, f"{path}.nodeAffinity")
    _pod_affinity(found, given.get("podAffinity") or {}, f"{path}.podAffinity")
    _pod_affinity(found, given.get("podAntiAffinity") or {}, f"{path}.podAntiAffinity")


def _pod_affinity(found: Found, given: PodAffinityFields, path: str) -> None:
    for index, term in enumerate(given.get(REQUIRED, ())):
        _pod_term(found, term, f"{path}.{REQUIRED}[{index}]")
    for index, weighted in enumerate(given.get(PREFERRED, ())):
        here = f"{path}.{PREFERRED}[{index}]"
        _weight(found, weighted, here)
        _pod_term(found, weighted.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")


def _node_affinity(found: Found, given: NodeAffinityFields, path: str) -> None:
    if (selector := given.get(REQUIRED)) is not None:
        node_selector(found, selector, f"{path}.{REQUIRED}")
    for index, preferred in enumerate(given.get(PREFERRED, ())):
        here = f"{path}.{PREFERRED}[{index}]"
        _weight(found, preferred, here)
        _node_term(found, preferred.get("preference") or {}, f"{here}.preference", strict=False)


def node_selector(found: Found, given: NodeSelectorFields, path: str) -> None:
    """Check a `v1.NodeSelector`: its terms consist of expressions about labels and fields of nodes."""
    terms = given.get("nodeSelectorTerms") or ()
    if not terms:
        found.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
    for index, term in enumerate(terms):
        _node_term(found, term, f"{path}.nodeSelectorTerms[{index}]", strict=True)


def _node_term(found: Found, term: NodeTermFields, path: str, *, strict: bool) -> None:
    for index, one in enumerate(term.get("matchExpressions") or ()):
        _node_expression(found, one, f"{path}.matchExpressions[{index}]", strict=strict)
    for index, one in enumerate(term.get("matchFields") or ()):
        _node_field(found, one, f"{path}.matchFields[{index}]")


def _node_expression(found: Found, one: RequirementFields, path: str, *, strict: bool) -> None:
    values: Sequence[str] = one.get("values") or ()
    match one.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                found.append(required(f"{path}.values", IN_NEEDS_VALUES))
        case "Exists" | "DoesNotExist":
            if values:
                found.append(forbidden_field(f"{path}.values", EXISTS_HAS_NONE))
        case "Gt" | "Lt":
            if len(values) != 1:
                text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                found.append(required(f"{path}.values", text))
        case other:
            found.append(invalid_value(f"{path}.operator", other, "not a valid selector operator"))
    formatted(found, f"{path}.key", one.get("key", ""), formats.qualified_name)
    for index, value in enumerate(values if strict else ()):
        formatted(found, f"{path}.values[{index}]", value, formats.label_value)


def _node_field(found: Found, one: RequirementFields, path: str) -> None:
    values: Sequence[str] = one.get("values") or ()
    if one.get("operator") not in ("In", "NotIn"):
        found.append(invalid_value(f"{path}.operator", one.get("operator", ""), "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        found.append(required(f"{path}.values", text))
    if one.get("key") != "metadata.name":
        found.append(invalid_value(f"{path}.key", one.get("key", ""), "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        formatted(found, f"{path}.values[{index}]", value, formats.dns_subdomain)


def _weight(found: Found, term: WeightedFields, path: str) -> None:
    if not 1 <= term.get("weight", 0) <= 100:
        found.append(invalid_value(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100"))


def _pod_term(found: Found, term: PodTermFields, path: str) -> None:
    label_selector(found, term.get("labelSelector"), f"{path}.labelSelector")
    label_selector(found, term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        formatted(found, f"{path}.namespace", name, formats.dns_label)
    key = term.get("topologyKey", "")
    if not key:
        found.append(required(f"{path}.topologyKey", "can not be empty"))
    formatted(found, f"{path}.topologyKey", key, formats.qualified_name)


def tolerations(found: Found, given: Sequence[TolerationFields], path: str) -> None:
    for index, one in enumerate(given):
        _toleration(found, one, f"{path}[{index}]")


def _toleration(found: Found, one: TolerationFields, path: str) -> None:
    key, operator, value, effect = (
        one.get("key", ""),
        one.get("operator", ""),
        one.get("value", ""),
        one.get("effect", ""),
    )
    if key:
        formatted(found, f"{path}.key", key, formats.qualified_name)
    elif operator != "Exists":
        found.append(invalid_value(f"{path}.operator", operator, KEY_EMPTY))
    if one.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        found.append(invalid_value(f"{path}.effect", effect, text))
    if operator in ("", "Equal"):
        if problems := formats.label_value(value):
            found.append(invalid_value(f"{path}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            found.append(invalid_value(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        found.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in EFFECTS:
        found.append(not_supported(f"{path}.effect", effect, EFFECTS))


def taints(found: Found, given: Sequence[TaintFields], path: str) -> None:
    """Check that the taints of a node are valid, and that no two have the same key and effect."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(given):
        here = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        formatted(found, f"{here}.key", key, formats.qualified_name)
        if problems := formats.label_value(value):
            found.append(invalid_value(f"{here}.value", value, ";".join(problems)))
        if not effect:
            found.append(required(f"{here}.effect"))
        elif effect not in EFFECTS:
            found.append(not_supported(f"{here}.effect", effect, EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            cause = duplicate(here, shown)
            text = f"{cause.message}: taints must be unique by key and effect pair"
            found.append(type(cause)(cause.reason, text, here))
        seen.add((key, effect))


def spread_constraints(found: Found, given: Sequence[SpreadFields], path: str) -> None:
    for index, one in enumerate(given):
        here = f"{path}[{index}]"
        if one.get("maxSkew", 0) <= 0:
            found.append(invalid_value(f"{here}.maxSkew", one.get("maxSkew", 0), "must be greater than zero"))
        if not one.get("topologyKey"):
            found.append(required(f"{here}.topologyKey", "can not be empty"))
        action = one.get("whenUnsatisfiable", "")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            found.append(not_supported(f"{here}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        pair = (one.get("topologyKey", ""), action)
        if any(
            (later.get("topologyKey", ""), later.get("whenUnsatisfiable", "")) == pair for later in given[index + 1 :]
        ):
            found.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"))
        _spread_details(found, one, action, here)


def _spread_details(found: Found, one: SpreadFields, action: str, path: str) -> None:
    domains = one.get("minDomains")
    if domains is not None:
        if domains <= 0:
            found.append(invalid_value(f"{path}.minDomains", domains, "must be greater than zero"))
        if action != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            found.append(invalid_value(f"{path}.minDomains", domains, text))
    policies = {"nodeAffinityPolicy": one.get("nodeAffinityPolicy"), "nodeTaintsPolicy": one.get("nodeTaintsPolicy")}
    for field, policy in policies.items():
        if policy is not None and policy not in ("Honor", "Ignore"):
            found.append(not_supported(f"{path}.{field}", policy, ("Honor", "Ignore")))
    for number, key in enumerate(one.get("matchLabelKeys") or ()):
        formatted(found, f"{path}.matchLabelKeys[{number}]", key, formats.qualified_name)
    label_selector(found, one.get("labelSelector"), f"{path}.labelSelector")


def gates(found: Found, given: Sequence[GateFields], path: str) -> None:
    """Check scheduling gates: each name must be a qualified name and occur only once."""
    seen: set[str] = set()
    for index, gate in enumerate(given):
        name = gate.get("name", "")
        formatted(found, f"{path}[{index}]", name, formats.qualified_name)
        if name in seen:
            found.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


HIGHEST_OF_USERS = 1_000_000_000
SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
RESERVED = "priority class names with 'system-' prefix are reserved for system use only. error: "


def _not_system(name: str) -> str:
    if name in SYSTEM:
        return f"value of {name} PriorityClass must be {SYSTEM[name]}"
    return f"{name} is not a known system priority class"


class PriorityClassStrategy(ResourceStrategy):
    """The strategy of `priorityclasses.scheduling.k8s.io`."""

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def prepare_create(self, obj: Object) -> None:
        if obj["metadata"].get("name") not in SYSTEM:
            obj["metadata"]["generation"] = 1

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
        if name.startswith("system-"):
            if SYSTEM.get(name) != value:
                found.append(forbidden_field("metadata.name", RESERVED + _not_system(name)))
        elif value > HIGHEST_OF_USERS:
            text = f"maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"
            found.append(forbidden_field("value", text))
        policy = obj.get("preemptionPolicy")
        chosen(found, "preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        if obj.get("value") != old.get("value"):
            found.append(forbidden_field("value", "may not be changed in an update."))
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            found.append(invalid_value("preemptionPolicy", obj.get("preemptionPolicy"), IMMUTABLE))
        return found


class RuntimeClassStrategy(ResourceStrategy):
    """The strategy of `runtimeclasses.node.k8s.io`."""

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        if handler := obj.get("handler"):
            formatted(found, "handler", handler, formats.dns_label)
        else:
            found.append(required("handler"))
        if overhead := (obj.get("overhead") or {}).get("podFixed"):
            checks.requirements(found, {"limits": overhead}, "overhead")
        if place := obj.get("scheduling"):
            checks.labels(found, place.get("nodeSelector"), "scheduling.nodeSelector")
            tolerations(found, place.get("tolerations") or (), "scheduling.tolerations")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if obj.get("handler") == old.get("handler"):
            return []
        return [invalid_value("handler", obj.get("handler"), IMMUTABLE)]
