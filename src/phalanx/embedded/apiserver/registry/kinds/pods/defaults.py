"""Set the defaults of pods, like SetDefaults_Pod, SetDefaults_PodSpec and related functions of Kubernetes.

`pod_spec` is for pods and for pod templates (of Jobs, CronJobs and PodTemplates). `pod` adds the defaults that only
pods get: requests (which are copied from limits), service links and host ports. All functions are idempotent. Source:
k8s.io/kubernetes/pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

import re
from typing import Any

from phalanx.embedded.apimachinery.caching import cached
from phalanx.embedded.apimachinery.meta.resource import Object

MODE_0644 = 0o644
GRACE_S = 30


def pod(spec: Object) -> None:
    """Set the defaults in the spec of a Pod."""
    pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in (*(spec.get("containers") or ()), *spec.get("initContainers", ())):
        _requests_from_limits(container.get("resources"))
    if spec.get("hostNetwork"):
        for container in (*(spec.get("containers") or ()), *spec.get("initContainers", ())):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port["containerPort"])


def pod_spec(spec: Object) -> None:
    """Set the defaults in the spec of a Pod or of a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", GRACE_S)
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            _container(container)
    for volume in spec.get("volumes", ()):
        _volume(volume)


def _container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        if (source := variable.get("valueFrom")) and (reference := source.get("fieldRef")) is not None:
            reference.setdefault("apiVersion", "v1")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(key)) is not None:
            _probe(probe)
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict) and (get := handler.get("httpGet")) is not None:
            _http_get(get)


_COMPONENT = "[a-z0-9]+(?:(?:[.]|_|__|-+)[a-z0-9]+)*"
_HOST = (
    "(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:[.][A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\\[[a-fA-F0-9:]+\\])"
)
_IMAGE = re.compile(
    f"(?P<name>(?:{_HOST}(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
_IMAGE_NAME_BYTES = 255 - len("docker.io/library/")


@cached(4096)
def pull_policy(image: str) -> str:
    """Return the default pull policy of an image: `Always` for the tag `latest` or for no tag, and `IfNotPresent`
    otherwise (another tag, a digest, or an invalid image name)."""
    found = _IMAGE.fullmatch(image)
    if found is None or len(found["name"]) > _IMAGE_NAME_BYTES:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _probe(probe: Object) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if (get := probe.get("httpGet")) is not None:
        _http_get(get)
    if (grpc := probe.get("grpc")) is not None:
        grpc.setdefault("service", "")


def _http_get(get: Object) -> None:
    get.setdefault("path", "/")
    get.setdefault("scheme", "HTTP")


def _requests_from_limits(resources: Object | None) -> None:
    if not resources or "limits" not in resources:
        return
    requests = resources.setdefault("requests", {})
    for name, amount in resources["limits"].items():
        requests.setdefault(name, amount)


def _volume(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
        return
    for key in ("secret", "configMap", "downwardAPI", "projected"):
        if (source := volume.get(key)) is not None:
            source.setdefault("defaultMode", MODE_0644)
            _downward_items(source.get("items", ()))
            for projection in source.get("sources", ()):
                _projection(projection)
    if (path := volume.get("hostPath")) is not None:
        path.setdefault("type", "")
    if (image := volume.get("image")) is not None:
        image.setdefault("pullPolicy", pull_policy(image.get("reference", "")))
    if claim := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _projection(projection: Object) -> None:
    if (token := projection.get("serviceAccountToken")) is not None:
        token.setdefault("expirationSeconds", 3600)
    if (downward := projection.get("downwardAPI")) is not None:
        _downward_items(downward.get("items", ()))


def _downward_items(items: Any) -> None:
    for item in items:
        if (reference := item.get("fieldRef")) is not None:
            reference.setdefault("apiVersion", "v1")
