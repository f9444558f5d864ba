"""HorizontalPodAutoscaler (autoscaling/v2). The server stores and shows these objects, but no controller of Phalanx
changes numbers of replicas. The condition `ScalingActive` of each object states that.

Source: pkg/apis/autoscaling/v2/defaults.go and pkg/apis/autoscaling/validation of k8s.io/kubernetes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import (
    Cause,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from phalanx.embedded.apimachinery.schema import formats, quantity
from phalanx.embedded.apiserver.registry.kinds.checks import Found, formatted
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus

_CONTROLLER = ("v1", "ReplicationController")
TARGET_PERCENT = 80  # the default target, in percent of the requested cpu, if no metric is named
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS = ("Utilization", "Value", "AverageValue")
_SELECTIONS = ("Disabled", "Max", "Min")
_LONGEST_WINDOW_S, _LONGEST_PERIOD_S = 3600, 1800
_DOUBLE = {"type": "Percent", "value": 100, "periodSeconds": 15}
_FOUR_PODS = {"type": "Pods", "value": 4, "periodSeconds": 15}
_BEHAVIOR: Mapping[str, Mapping[str, object]] = {
    "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [_FOUR_PODS, _DOUBLE]},
    "scaleDown": {"selectPolicy": "Max", "policies": [_DOUBLE]},
}
WARNING = (
    "no controller of this cluster acts on a HorizontalPodAutoscaler: the number of replicas does not change; set it "
    "with kubectl scale, or run an autoscaler in addition to phalanx up"
)


class AutoscalerStrategy(SpecAndStatus):
    """The strategy of `horizontalpodautoscalers.autoscaling`."""

    def default(self, obj: Object) -> None:
        spec = obj["spec"] = obj.get("spec") or {}
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": TARGET_PERCENT}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        if (behavior := spec.get("behavior")) is not None:
            for key, values in _BEHAVIOR.items():
                behavior[key] = {**copy.deepcopy(values), **(behavior.get(key) or {})}

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
        least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
        if least < 1:
            found.append(invalid_value("spec.minReplicas", least, "must be greater than or equal to 1"))
        if most == 0:
            found.append(required("spec.maxReplicas", "must be set and greater than 0"))
        elif most < 0:
            found.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1"))
        if most < least:
            found.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
        _target_object(found, spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
        metrics = spec.get("metrics") or ()
        for number, metric in enumerate(metrics):
            _metric(found, metric, f"spec.metrics[{number}]")
        if least == 0 and not any(one.get("type") in ("Object", "External") for one in metrics):
            text = "must specify at least one Object or External metric to support scaling to zero replicas"
            found.append(forbidden_field("spec.metrics", text))
        for key, rules in (spec.get("behavior") or {}).items():
            _rules(found, rules, f"spec.behavior.{key}")
        return found


def _target_object(found: Found, target: Object, path: str) -> None:
    for key in ("kind", "name"):
        if not target.get(key):
            found.append(required(f"{path}.{key}"))
        else:
            formatted(found, f"{path}.{key}", target[key], formats.path_segment)
    version = target.get("apiVersion", "")
    if version.count("/") > 1:
        found.append(invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif "/" not in version and (version, target.get("kind")) != _CONTROLLER:
        found.append(invalid_value(f"{path}.apiVersion", version, "apiVersion must specify API group"))


def _metric(found: Found, metric: Object, path: str) -> None:
    """Check a metric: its type must name a source, and the field of this source must be set and valid."""
    sort = metric.get("type", "")
    if not sort:
        found.append(required(f"{path}.type", "must specify a metric source type"))
    if sort not in _SOURCES:
        found += [not_supported(f"{path}.type", sort, sorted(_SOURCES))] * 2  # kube-apiserver reports this error twice
        return
    key = _SOURCES[sort]
    source = metric.get(key)
    if source is None:
        text = "must populate information for the given metric source"
        found.append(required(f"{path}.{key}", text))
        return
    if sort == "Resource":
        if not source.get("name"):
            found.append(required(f"{path}.{key}.name", "must specify a resource name"))
    elif sort == "Pods":
        name = (source.get("metric") or {}).get("name")
        if not name:
            found.append(required(f"{path}.{key}.metric.name", "must specify a metric name"))
        else:
            formatted(found, f"{path}.{key}.metric.name", name, formats.path_segment)
    if sort in ("Resource", "Pods"):
        _target(found, source.get("target") or {}, sort, f"{path}.{key}.target")


def _target(found: Found, target: Object, sort: str, path: str) -> None:
    kind, value, percent = target.get("type", ""), target.get("averageValue"), target.get("averageUtilization")
    if not kind:
        found.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        found.append(invalid_value(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    if value is not None and quantity.of(value) <= 0:
        found.append(invalid_value(f"{path}.averageValue", value, "must be positive"))
    if percent is not None and percent < 1:
        found.append(invalid_value(f"{path}.averageUtilization", percent, "must be greater than 0"))
    if sort == "Pods" and value is None:
        found.append(required(f"{path}.averageValue", "must specify a positive target averageValue"))
    if sort == "Resource" and value is None and percent is None:
        text = "must set either a target raw value or a target utilization"
        found.append(required(f"{path}.averageUtilization", text))


def _rules(found: Found, rules: Object, path: str) -> None:
    """Check the rules that limit how fast the number of replicas may change."""
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        text = "must be greater than or equal to zero"
        found.append(invalid_value(f"{path}.stabilizationWindowSeconds", window, text))
    if window is not None and window > _LONGEST_WINDOW_S:
        text = f"must be less than or equal to {_LONGEST_WINDOW_S}"
        found.append(invalid_value(f"{path}.stabilizationWindowSeconds", window, text))
    if (select := rules.get("selectPolicy")) is not None and select not in _SELECTIONS:
        found.append(not_supported(f"{path}.selectPolicy", select, _SELECTIONS))
    if not rules.get("policies"):
        found.append(required(f"{path}.policies", "must specify at least one Policy"))
    for number, policy in enumerate(rules.get("policies") or ()):
        here = f"{path}.policies[{number}]"
        if (sort := policy.get("type", "")) not in ("Percent", "Pods"):
            found.append(not_supported(f"{here}.type", sort, ("Percent", "Pods")))
        for key in ("value", "periodSeconds"):
            if policy.get(key, 0) <= 0:
                found.append(invalid_value(f"{here}.{key}", policy.get(key, 0), "must be greater than zero"))
        if policy.get("periodSeconds", 0) > _LONGEST_PERIOD_S:
            text = f"must be less than or equal to {_LONGEST_PERIOD_S}"
            found.append(invalid_value(f"{here}.periodSeconds", policy["periodSeconds"], text))
