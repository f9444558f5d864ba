"""Priority classes and runtime classes. Source: pkg/apis/scheduling/validation, pkg/apis/node/validation."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import Cause, forbidden_field, invalid_value, required
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds import checks
from phalanx.embedded.apiserver.registry.kinds.checks import IMMUTABLE, Found, chosen, formatted
from phalanx.embedded.apiserver.registry.kinds.generation import count
from phalanx.embedded.apiserver.registry.kinds.nodes import scheduling

HIGHEST_OF_USERS = 1_000_000_000
SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
RESERVED = "priority class names with 'system-' prefix are reserved for system use only. error: "


def _not_system(name: str) -> str:
    if name in SYSTEM:
        return f"value of {name} PriorityClass must be {SYSTEM[name]}"
    return f"{name} is not a known system priority class"


class PriorityClassStrategy(ResourceStrategy):
    """`priorityclasses.scheduling.k8s.io`."""

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def prepare_create(self, obj: Object) -> None:
        if obj["metadata"].get("name") not in SYSTEM:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, obj: Object, old: Object) -> None:
        count(obj, old, ("value", "preemptionPolicy", "globalDefault", "description"))

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
    """`runtimeclasses.node.k8s.io`."""

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
            scheduling.tolerations(found, place.get("tolerations") or (), "scheduling.tolerations")
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if obj.get("handler") == old.get("handler"):
            return []
        return [invalid_value("handler", obj.get("handler"), IMMUTABLE)]
