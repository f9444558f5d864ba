"""Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers.

No controller of Phalanx acts on DaemonSets. The server has this kind because clients list it and manifests contain it.
When a DaemonSet is created, a warning states that it gets no pods. A ReplicationController is the older form of a
ReplicaSet, and its selector is a map of labels. The controller of ReplicaSets also creates the pods of
ReplicationControllers. Source: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation; pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation.

The strategy of PodTemplates is also here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.embedded.apimachinery.meta.objectmeta import TEMPLATE_GENERATION, take
from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import Cause, forbidden_field, invalid_value, not_supported, required
from phalanx.embedded.apiserver.registry.kinds.checks import (
    Found,
    LabelSelectorFields,
    label_selector,
    not_negative,
    selects,
    unchanged,
)
from phalanx.embedded.apiserver.registry.kinds.checks import labels as check_labels
from phalanx.embedded.apiserver.registry.kinds.generation import GenerationStrategy, SpecAndStatus
from phalanx.embedded.apiserver.registry.kinds.pods import defaults, spec
from phalanx.embedded.apiserver.registry.kinds.pods import spec as pod_spec
from phalanx.embedded.apiserver.registry.kinds.pods import warnings as pod_warnings
from phalanx.embedded.apiserver.registry.kinds.workloads import rollout

_ACTED_ON = ("deployment", "replicaset", "statefulset")
# In this message, kube-apiserver also calls a ReplicaSet "deployment".
EMPTY_SELECTOR = "empty selector is invalid for {}"
_CHANGEABLE = {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"} | {
    "persistentVolumeClaimRetentionPolicy"
}
FROZEN_SET = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
POD_NAMES = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior"
ENDLESS_HISTORY = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)
UNMATCHED = "`selector` does not match template `labels`"


class WorkloadStrategy(SpecAndStatus):
    """The strategy that the four kinds of workloads share. `kind`: the name of the kind in messages."""

    counts = True

    def __init__(self, kind: str, *, replicated: bool = True) -> None:
        self.kind, self.replicated = kind, replicated

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        if self.replicated:
            spec.setdefault("replicas", 1)
        if self.kind == "daemonset":
            obj["metadata"].setdefault("annotations", {}).setdefault(TEMPLATE_GENERATION, "0")
        if "template" in spec:
            defaults.pod_spec(spec["template"]["spec"])
        _DEFAULTS[self.kind](spec)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        if self.kind == "daemonset":
            obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        if self.kind == "deployment" and obj["metadata"].get("annotations") != old["metadata"].get("annotations"):
            # a change of annotations also increments the generation, because rollbacks read them
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if self.kind == "daemonset":
            before = (old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "0")
            changed = obj["spec"].get("template") != old["spec"].get("template")
            obj["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(int(before) + changed)

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        super().prepare_status_update(obj, old)
        if self.kind == "deployment":
            take(obj["metadata"], old["metadata"], "labels")

    def first_status(self, obj: Object) -> Object:
        return dict.fromkeys(_FIRST_COUNTS[self.kind], 0)

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec, template = obj["spec"], obj["spec"].get("template") or {}
        not_negative(found, spec, ("replicas", "minReadySeconds"), "spec")
        if self.kind != "statefulset":
            not_negative(found, spec, ("revisionHistoryLimit",), "spec")
        labels = (template.get("metadata") or {}).get("labels")
        self._selector(found, spec.get("selector"), labels)
        if self.kind == "statefulset":
            # kube-apiserver checks the labels twice: here and with the template
            check_labels(found, labels, "spec.template.labels")
            template = rollout.with_claims(found, spec, template)
        _template(found, template, _DEADLINES[self.kind])
        if (check := _STRATEGIES.get(self.kind)) is not None:
            check(found, spec)
        return found

    def _selector(self, found: Found, selector: LabelSelectorFields | None, labels: Object | None) -> None:
        """Check that the selector is valid and selects the pods of the template."""
        before = len(found)
        if selector is None:
            if self.kind != "daemonset":
                found.append(required("spec.selector"))
        else:
            label_selector(found, selector, "spec.selector")
            if len(found) > before:
                if self.kind != "daemonset":
                    text = "" if self.kind == "statefulset" else "invalid label selector"
                    found.append(invalid_value("spec.selector", selector, text))
                return
            if not selector:
                # In this message, kube-apiserver also calls a ReplicaSet "deployment".
                name = "deployment" if self.kind == "replicaset" else self.kind
                found.append(invalid_value("spec.selector", selector, EMPTY_SELECTOR.format(name)))
        if selector != {} and not selects(selector, labels or {}):
            found.append(invalid_value("spec.template.metadata.labels", labels, UNMATCHED))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        spec, before = obj["spec"], old["spec"]
        if self.kind != "statefulset":
            unchanged(found, "spec.selector", spec.get("selector"), before.get("selector"))
        elif any(_content(spec.get(key)) != _content(before.get(key)) for key in {*spec, *before} - _CHANGEABLE):
            found.append(forbidden_field("spec", FROZEN_SET))
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        status_counts(found, obj["status"], self.kind)
        return found

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        found: list[str] = []
        if old is None and self.kind in ("deployment", "replicaset"):
            found += pod_warnings.of_name(obj, POD_NAMES)
        if old is None or obj["spec"] != old["spec"]:
            found += pod_warnings.of_pod(obj["spec"].get("template") or {}, "spec.template")
        if self.kind == "statefulset" and (obj["spec"].get("revisionHistoryLimit") or 0) < 0:
            found.append(ENDLESS_HISTORY)
        if old is not None or self.kind in _ACTED_ON:
            return found
        found.append(f"no controller of this cluster acts on a {self.kind}: no pods will be created for it; use a Job")
        return found


class ReplicationControllerStrategy(SpecAndStatus):
    """The strategy of `replicationcontrollers`."""

    counts = True
    default_propagation = "orphan"

    def default(self, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        if (template := spec.get("template")) is None:
            return
        defaults.pod_spec(template["spec"])
        if labels := (template.get("metadata") or {}).get("labels"):
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)

    def first_status(self, obj: Object) -> Object:
        return {"replicas": 0}

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        not_negative(found, spec, ("minReadySeconds", "replicas"), "spec")
        selector, template = spec.get("selector") or {}, spec.get("template")
        if not selector:
            found.append(required("spec.selector"))
        if template is None:
            found.append(required("spec.template"))
            return found
        labels = (template.get("metadata") or {}).get("labels")
        if any((labels or {}).get(key) != value for key, value in selector.items()):
            found.append(invalid_value("spec.template.metadata.labels", labels, UNMATCHED))
        _template(found, template, "ReplicationController")
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        status_counts(found, obj["status"], "replicaset")
        return found

    def selectable_names(self) -> Iterable[str]:
        return ("status.replicas",)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))}


def status_counts(found: Found, status: Object, kind: str) -> None:
    """Find negative numbers of pods, numbers that exceed the number of replicas, and more available pods than ready
    pods."""
    not_negative(found, status, _STATUS_COUNTS[kind], "status")
    for field in _PARTS_OF_REPLICAS.get(kind, ()):
        if (count := status.get(field) or 0) > (status.get("replicas") or 0):
            found.append(invalid_value(f"status.{field}", count, "cannot be greater than status.replicas"))
    count = status.get("availableReplicas") or 0
    if kind in _PARTS_OF_REPLICAS and count > (status.get("readyReplicas") or 0):
        ready = "status.readyReplicas" if kind == "statefulset" else "readyReplicas"
        found.append(invalid_value("status.availableReplicas", count, f"cannot be greater than {ready}"))


def _content(value: object) -> object:
    """Return the part of an immutable field's value that must be the same before and after an update. An empty value
    equals a missing one. For volume claims, only the metadata and the spec are compared, because older versions of this
    server stored claims without a kind, a status and a volume mode."""
    if not isinstance(value, list):
        return value or None
    specs = [(claim.get("metadata"), claim.get("spec") or {}) for claim in value]
    return [(meta, {"volumeMode": "Filesystem"} | spec) for meta, spec in specs]


def _template(found: Found, template: Object, kind: str) -> None:
    pod_spec.template(found, template, "spec.template")
    if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        found.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", text))
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy != "Always":
        found.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))


def _deployment(spec: Object) -> None:
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _stateful_set(spec: Object) -> None:
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy.setdefault("rollingUpdate", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim["status"] = (claim.get("status") or {}) | {"phase": "Pending"}
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("revisionHistoryLimit", 10)


def _daemon_set(spec: Object) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def _replica_set(spec: Object) -> None:
    """Do nothing: the only default of a ReplicaSet is its number of replicas."""


_DEFAULTS = {
    "deployment": _deployment,
    "statefulset": _stateful_set,
    "daemonset": _daemon_set,
    "replicaset": _replica_set,
}
# The kind that the message about `activeDeadlineSeconds` names. For a Deployment, kube-apiserver names the ReplicaSet.
_DEADLINES = {
    "deployment": "ReplicaSet",
    "replicaset": "ReplicaSet",
    "statefulset": "StatefulSet",
    "daemonset": "DaemonSet",
}
_STRATEGIES = {
    "deployment": rollout.deployment,
    "statefulset": rollout.stateful_set,
    "daemonset": rollout.daemon_set,
}
_STATUS_COUNTS = {
    "deployment": (
        *("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
        *("unavailableReplicas", "terminatingReplicas", "collisionCount"),
    ),
    "replicaset": (
        *("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        *("observedGeneration", "terminatingReplicas"),
    ),
    "statefulset": (
        *("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        *("observedGeneration", "collisionCount"),
    ),
    "daemonset": (
        *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
        *("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
    ),
}
_PARTS_OF_REPLICAS = {
    "deployment": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "replicaset": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "statefulset": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}
_FIRST_COUNTS = {
    "deployment": (),
    "statefulset": ("replicas", "availableReplicas"),
    "daemonset": ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
    "replicaset": ("replicas",),
}


class PodTemplateStrategy(GenerationStrategy):
    """The strategy of `podtemplates`."""

    delete_returns_object = True

    spec_fields = ("template",)

    def default(self, obj: Object) -> None:
        defaults.pod_spec(obj["template"]["spec"])

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec.template(found, obj["template"], "template")
        return found
