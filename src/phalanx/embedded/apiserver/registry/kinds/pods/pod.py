"""The strategy of pods, which combines their defaults, their validation and the rules for changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import Cause
from phalanx.embedded.apiserver.registry.kinds.checks import Found
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus, count
from phalanx.embedded.apiserver.registry.kinds.pods import defaults, update
from phalanx.embedded.apiserver.registry.kinds.pods import spec as pod_spec
from phalanx.embedded.apiserver.registry.kinds.pods import warnings as pod_warnings
from phalanx.embedded.apiserver.registry.kinds.pods.qos import qos_class

SELECTABLE = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)


def _same_addresses(status: Object) -> None:
    """Make `podIPs` begin with `podIP`, which takes precedence if both are given (as in Kubernetes' conversion of a
    PodStatus)."""
    first, every = status.get("podIP"), status.get("podIPs")
    if first and (not every or every[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif every and not first:
        status["podIP"] = every[0].get("ip", "")


class PodStrategy(SpecAndStatus):
    """The strategy of `pods`. In addition to the hooks of ResourceStrategy, it has hooks for the subresources resize
    and ephemeralcontainers."""

    counts = True
    delete_returns_object = True

    def default(self, obj: Object) -> None:
        defaults.pod(obj["spec"])
        if obj["spec"]["terminationGracePeriodSeconds"] < 0:
            obj["spec"]["terminationGracePeriodSeconds"] = 1

    def first_status(self, obj: Object) -> Object:
        status: Object = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [gated_condition(obj["metadata"].get("creationTimestamp"))]
        return status

    def prepare_status_update(self, obj: Object, old: Object) -> None:
        """Restore the fields that a write to `/status` may not change. Such a write may change labels and annotations.
        It may not change owner references, because old kubelets corrupted them."""
        super().prepare_status_update(obj, old)
        meta, before = obj["metadata"], old["metadata"]
        for key in ("ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"):
            meta.pop(key, None)
            if key in before:
                meta[key] = before[key]
        _same_addresses(obj["status"])
        if not obj["status"].get("qosClass") and "qosClass" in old["status"]:
            obj["status"]["qosClass"] = old["status"]["qosClass"]

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        if obj["metadata"].get("resourceVersion"):
            pod_spec.live_pod(found, obj)
        else:
            pod_spec.new_pod(found, obj)
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        update.update(found, obj, old)
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        update.status_update(found, obj, old)
        return found

    def selectable_names(self) -> Iterable[str]:
        return SELECTABLE

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": status.get("podIP", ""),
            # as in kube-apiserver, a selector may name this field, but its value is empty for every pod
            "status.podIPs": "",
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }

    def deletion_grace_s(self, obj: Object, asked_s: int | None) -> int:
        """Return the grace period of a pod in seconds: 0 for a pod that has no node or has ended, and 1 if the
        requested period is negative."""
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        grace_s = asked_s if asked_s is not None else obj["spec"].get("terminationGracePeriodSeconds", 30)
        return 1 if grace_s < 0 else grace_s

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        if old is not None:
            return []
        named = "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior"
        return [*pod_warnings.of_name(obj, named), *pod_warnings.of_pod(obj)]

    # --- pods/resize and pods/ephemeralcontainers ------------------------------------------------------------------

    def prepare_resize(self, obj: Object, old: Object) -> None:
        """Restore all fields except the resources of containers."""
        asked = {key: obj["spec"].get(key) or () for key in ("containers", "initContainers")}
        obj["spec"] = dict(old["spec"])
        for key, given in asked.items():
            if key in old["spec"]:
                obj["spec"][key] = _with_resources(old["spec"][key], given)
        obj["status"] = old["status"]
        obj["metadata"] = dict(old["metadata"])
        defaults.pod(obj["spec"])
        count(obj, old, ("spec",))

    def validate_resize(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        pod_spec.live_pod(found, obj)
        update.resize(found, obj, old)
        return found

    def prepare_ephemeral(self, obj: Object, old: Object) -> None:
        """Restore all fields except the ephemeral containers."""
        asked = obj["spec"].get("ephemeralContainers")
        obj["spec"] = dict(old["spec"])
        if asked:
            obj["spec"]["ephemeralContainers"] = asked
        obj["status"] = old["status"]
        # restore the metadata, because admission does not check it in this write
        obj["metadata"] = dict(old["metadata"])
        count(obj, old, ("spec",))

    def validate_ephemeral(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        pod_spec.live_pod(found, obj)
        update.ephemeral_update(found, obj, old)
        return found


def gated_condition(now: str | None) -> Object:
    """Return the condition of a pod that the scheduler skips because of its scheduling gates."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _with_resources(old: list[Object], asked: Iterable[Object]) -> list[Object]:
    """Return the old containers, each with the resources that the container of the same name has in the request."""
    given = {one.get("name"): one for one in asked}
    found = []
    for container in old:
        new = given.get(container["name"], container)
        merged = dict(container)
        for key in ("resources", "resizePolicy"):
            merged.pop(key, None)
            if key in new:
                merged[key] = new[key]
        found.append(merged)
    return found
