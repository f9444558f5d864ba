"""HorizontalPodAutoscaler (autoscaling/v2): stored and shown. No controller here changes numbers of replicas, and the
condition `ScalingActive` of each object says so.

Source: pkg/apis/autoscaling/v2/defaults.go and pkg/apis/autoscaling/validation of k8s.io/kubernetes.
"""

from __future__ import annotations

from phalanx.embedded.apiserver.apimachinery.meta.resource import Object
from phalanx.embedded.apiserver.apimachinery.meta.status import Cause, invalid_value, required
from phalanx.embedded.apiserver.registry.kinds.checks import Found
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus

_CONTROLLER = ("v1", "ReplicationController")
TARGET_PERCENT = 80  # percent of the requested cpu, if no metric is named
WARNING = (
    "no controller here scales by a HorizontalPodAutoscaler: the number of replicas stays as it is; set it with "
    "kubectl scale, or run an autoscaler beside phalanx up"
)


class AutoscalerStrategy(SpecAndStatus):
    """`horizontalpodautoscalers.autoscaling`."""

    def default(self, obj: Object) -> None:
        spec = obj["spec"] = obj.get("spec") or {}
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": TARGET_PERCENT}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]

    def first_status(self, obj: Object) -> Object:
        condition = {
            "type": "ScalingActive",
            "status": "False",
            "lastTransitionTime": obj["metadata"].get("creationTimestamp"),
            "reason": "NoController",
            "message": WARNING,
        }
        return {"currentMetrics": None, "desiredReplicas": 0, "conditions": [condition]}

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        return [WARNING] if old is None else []

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        target = spec.get("scaleTargetRef") or {}
        least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
        if least < 1:
            found.append(invalid_value("spec.minReplicas", least, "must be greater than or equal to 1"))
        if most < 1:
            found.append(required("spec.maxReplicas", "must be set and greater than 0"))
        if most < least:
            found.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
        found += [required(f"spec.scaleTargetRef.{name}", "") for name in ("kind", "name") if not target.get(name)]
        if "/" not in target.get("apiVersion", "") and (target.get("apiVersion"), target.get("kind")) != _CONTROLLER:
            why = "apiVersion must specify API group"
            found.append(invalid_value("spec.scaleTargetRef.apiVersion", target.get("apiVersion", ""), why))
        return found
