"""Nodes and namespaces, which are cluster-scoped kinds, and Leases.

Source: ValidateNode, ValidateNodeUpdate, ValidateNamespace and related functions of pkg/apis/core/validation, and the
strategies of these kinds.

Leaders and nodes renew Leases regularly. Source: pkg/apis/coordination/validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import Cause, duplicate, forbidden_field, invalid_value, required
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apimachinery.schema.formats import qualified_name
from phalanx.embedded.apiserver.registry.kinds.checks import NEGATIVE, Found, formatted, resource_amount
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus
from phalanx.embedded.apiserver.registry.kinds.nodes import scheduling

ONLY_THESE = (
    "node updates may only change labels, taints, or capacity (or configSource, if the DynamicKubeletConfig feature "
    "gate is enabled)"
)
CHANGEABLE = frozenset({"taints", "unschedulable", "externalID", "podCIDR", "podCIDRs", "providerID"})


class NodeStrategy(ResourceStrategy):
    """The strategy of `nodes`. A node may be created together with its status, as kubelets do."""

    def default(self, obj: Object) -> None:
        status = obj.setdefault("status", {})
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        spec = obj.setdefault("spec", {})
        if spec.get("podCIDR") and (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]

    def prepare_update(self, obj: Object, old: Object) -> None:
        obj["status"] = old["status"]

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        obj["spec"] = old["spec"]

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        scheduling.taints(found, spec.get("taints", ()), "metadata.taints")
        if not obj["metadata"].get("resourceVersion"):
            _amounts(found, obj["status"])
        cidrs = spec.get("podCIDRs") or ()
        for index, cidr in enumerate(cidrs):
            formatted(found, f"spec.podCIDRs[{index}]", cidr, formats.cidr)
        families = [":" in cidr for cidr in cidrs if not formats.cidr(cidr)]
        if len(families) > 1 and (len(families) > 2 or families[0] == families[1]):
            found.append(
                invalid_value("spec.podCIDRs", list(cidrs), "may specify no more than one CIDR for each IP family")
            )
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        _resources(found, obj["status"])
        spec, before = obj["spec"], old["spec"]
        for key, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            if before.get(key) and spec.get(key) != before.get(key):
                text = f'node updates may not change {shown} except from "" to valid'
                found.append(forbidden_field(f"spec.{key}", text))
        scheduling.taints(found, spec.get("taints", ()), "metadata.taints")
        if spec.get("externalID") != before.get("externalID"):
            found.append(forbidden_field("spec.externalID", "may not be updated"))
        if any(spec.get(key) != before.get(key) for key in {*spec, *before} - CHANGEABLE):
            found.append(forbidden_field("", ONLY_THESE))
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        return self.validate_update(obj, old)

    def selectable_names(self) -> Iterable[str]:
        return ("spec.unschedulable",)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}


def _amounts(found: Found, status: Object) -> None:
    for key in ("capacity", "allocatable"):
        for name, amount in (status.get(key) or {}).items():
            resource_amount(found, name, amount, f"status.{key}.{name}")


def _resources(found: Found, status: Object) -> None:
    _amounts(found, status)
    seen: list[Object] = []
    for index, address in enumerate(status.get("addresses") or ()):
        if address in seen:
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            found.append(duplicate(f"status.addresses[{index}]", shown))
        seen.append(address)


class NamespaceStrategy(SpecAndStatus):
    """The strategy of `namespaces`. A namespace is deleted in two steps, and a write to `/finalize` is the second
    one."""

    def default(self, obj: Object) -> None:
        if name := obj["metadata"].get("name"):
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name

    def first_status(self, obj: Object) -> Object:
        return {"phase": "Active"}

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        spec = obj.setdefault("spec", {})
        if "kubernetes" not in spec.setdefault("finalizers", []):
            spec["finalizers"].append("kubernetes")

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        obj["spec"] = old.get("spec") or {}

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        for name in (obj.get("spec") or {}).get("finalizers") or ():
            formatted(found, "spec.finalizers", name, formats.qualified_name)
            if "/" not in name and name != "kubernetes":
                why = "name is neither a standard finalizer name nor is it fully qualified"
                found.append(invalid_value("spec.finalizers", name, why))
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        phase = obj["status"].get("phase", "")
        wanted = "Terminating" if obj["metadata"].get("deletionTimestamp") else "Active"
        if phase == wanted:
            return []
        when = "not empty" if wanted == "Terminating" else "empty"
        if not phase:
            return [required("status.Phase", f"may only be '{wanted}' if `deletionTimestamp` is {when}")]
        return [
            invalid_value("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` is {when}"),
        ]

    def selectable_names(self) -> Iterable[str]:
        return ("status.phase",)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.phase": (obj.get("status") or {}).get("phase", "")}


class LeaseStrategy(ResourceStrategy):
    """The strategy of `leases.coordination.k8s.io`. A PUT creates a Lease that does not exist; to replace a Lease, it
    needs the resourceVersion."""

    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj.get("spec") or {}
        duration_s, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration_s is not None and duration_s <= 0:
            found.append(invalid_value("spec.leaseDurationSeconds", duration_s, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            found.append(invalid_value("spec.leaseTransitions", transitions, NEGATIVE))
        if strategy := spec.get("strategy"):
            formatted(found, "spec.strategy", strategy, qualified_name)
        elif holder := spec.get("preferredHolder"):
            text = "may only be specified if `strategy` is defined"
            found.append(invalid_value("spec.preferredHolder", holder, text))
        return found
