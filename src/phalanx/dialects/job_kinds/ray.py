"""Present a RayCluster, RayJob or RayService (`ray.io/v1`) as a gang of its head and its worker groups. A RayJob also
has a submitter pod, which starts later.

If a RayJob is suspended, its operator deletes the RayJob's RayCluster. If a RayCluster is suspended, the operator
deletes its pods. The suspend field of a RayService is in its cluster's spec. A RayService never ends. A RayJob with a
`clusterSelector` uses an existing cluster, so Phalanx does not schedule it.


Source: the API reference of KubeRay v1.7. The pods that Kueue counts:
pkg/controller/jobs/{raycluster,rayjob,rayservice} of v0.20.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.client.kind import Kind
from phalanx.dialects.job_kinds.form import LATER, Object, as_job, at, manager, nested, patched

_HEAD, _SUBMITTER = "head", "submitter"
_OPERATOR = "ray.io/kuberay-operator"
_NODE_TYPE, _GROUP = "ray.io/node-type", "ray.io/group"
_ENDED = {"Complete": "Complete", "Failed": "Failed", "ValidationFailed": "Failed"}


def _container(name: str, cpu: str, memory: str) -> Object:
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}}


_SUBMITS = _container("ray-job-submitter", "500m", "200Mi")
_SCALES = _container("autoscaler", "500m", "512Mi")


@dataclass(frozen=True, slots=True)
class Ray:
    """The implementation of `job_kinds.form.Framework` for one of Ray's kinds. `cluster`: the path of the RayCluster's
    spec in the object's spec. `submitted`: True if a submitter pod may run in addition to the cluster."""

    kind: Kind
    cluster: tuple[str, ...] = ()
    suspend: tuple[str, ...] = ("suspend",)
    submitted: bool = False

    def roles(self, obj: Object, made: Object | None = None) -> list[str]:
        spec = obj.get("spec") or {}
        if spec.get("clusterSelector"):
            return []
        found = [str(group["groupName"]) for group in self._groups(spec) if _count(group)]
        return [_HEAD, *found, *([_SUBMITTER] if self._submits(spec) else [])]

    def role_of(self, labels: Mapping[str, str]) -> str:
        if labels.get(_NODE_TYPE) == _HEAD:
            return _HEAD
        return str(labels.get(_GROUP) or _SUBMITTER).lower()

    def view(self, obj: Object, role: str, made: Object | None = None) -> Object:
        spec = obj["spec"]
        group = next((one for one in self._groups(spec) if one["groupName"] == role), {})
        deployed = str((obj.get("status") or {}).get("jobDeploymentStatus") or "")
        conditions = [{"type": _ENDED[deployed], "status": "True"}] if deployed in _ENDED else []
        return as_job(
            obj,
            role,
            roles=self.roles(obj),
            count=_count(group) if group else 1,
            template=self._template(spec, role, group),
            suspended=at(spec, self.suspend),
            words={LATER: "true"} if role == _SUBMITTER else {},
            status={"conditions": conditions},
            activeDeadlineSeconds=spec.get("activeDeadlineSeconds"),
            managedBy=manager(spec.get("managedBy"), _OPERATOR),
        )

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        found = patched(spec, nested(self.suspend, patch["suspend"])) if "suspend" in patch else spec
        if "activeDeadlineSeconds" in patch:
            found = patched(found, {"activeDeadlineSeconds": patch["activeDeadlineSeconds"]})
        change = {"template": patch["template"]} if "template" in patch else {}
        if not change:
            return found
        if role == _SUBMITTER:  # if the spec has no template, the operator uses its own template
            return patched(found, {"submitterPodTemplate": patch["template"]}) if _own(spec) else found
        if role == _HEAD:
            return patched(found, nested((*self.cluster, "headGroupSpec"), change))
        groups = [patched(one, change) if one["groupName"] == role else one for one in self._groups(spec)]
        return patched(found, nested((*self.cluster, "workerGroupSpecs"), groups))

    def _groups(self, spec: Object) -> list[Object]:
        return list((at(spec, self.cluster) or {}).get("workerGroupSpecs") or ())

    def _submits(self, spec: Object) -> bool:
        return self.submitted and (spec.get("submissionMode") or "K8sJobMode") == "K8sJobMode"

    def _template(self, spec: Object, role: str, group: Object) -> Object:
        if role == _SUBMITTER:
            return _own(spec) or {"spec": {"containers": [_SUBMITS]}}
        if group:
            found: Object = group.get("template") or {"spec": {}}
            return found
        cluster = at(spec, self.cluster) or {}
        template: Object = (cluster.get("headGroupSpec") or {}).get("template") or {"spec": {}}
        sidecars: list[object] = [_SCALES] if cluster.get("enableInTreeAutoscaling") else []
        sidecars += [_SUBMITS] if spec.get("submissionMode") == "SidecarMode" else []
        pod = template.get("spec") or {}
        return {**template, "spec": {**pod, "containers": [*(pod.get("containers") or ()), *sidecars]}}


RAY_CLUSTER = Ray(Kind(group="ray.io", plural="rayclusters", name="RayCluster"))
RAY_JOB = Ray(Kind(group="ray.io", plural="rayjobs", name="RayJob"), ("rayClusterSpec",), submitted=True)
RAY_SERVICE = Ray(
    Kind(group="ray.io", plural="rayservices", name="RayService"),
    ("rayClusterConfig",),
    ("rayClusterConfig", "suspend"),
)


def _count(group: Object) -> int:
    replicas, hosts = group.get("replicas"), group.get("numOfHosts")
    return (1 if replicas is None else int(replicas)) * (1 if hosts is None else int(hosts))


def _own(spec: Object) -> Object:
    found: Object = spec.get("submitterPodTemplate") or {}
    return found
