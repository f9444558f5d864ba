"""Leases: what leader election and nodes renew. Source: pkg/apis/coordination/validation."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Object, ResourceStrategy
from phalanx.embedded.apimachinery.meta.status import Cause, invalid_value
from phalanx.embedded.apimachinery.schema.formats import qualified_name
from phalanx.embedded.apiserver.registry.kinds.checks import NEGATIVE, Found, formatted


class LeaseStrategy(ResourceStrategy):
    """`leases.coordination.k8s.io`: PUT creates, and needs the resourceVersion of the Lease that it replaces."""

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
