"""The built-in kinds of the core API group."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import ALL_VERBS, Resource, Subresource
from phalanx.embedded.apiserver.registry.builtin_kinds.form import REPLICAS, core_kind, proxy_of, scale, status_of
from phalanx.embedded.apiserver.registry.kinds.nodes.node import NamespaceStrategy, NodeStrategy
from phalanx.embedded.apiserver.registry.kinds.pods.pod import PodStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.limits import LimitRangeStrategy, QuotaStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.apps import PodTemplateStrategy, ReplicationControllerStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.config import (
    ConfigMapStrategy,
    SecretStrategy,
    ServiceAccountStrategy,
)
from phalanx.embedded.apiserver.registry.kinds.workloads.endpoints import EndpointsStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.event import CoreEventStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.service import ServiceStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.storage import ClaimStrategy, VolumeStrategy

PODS = core_kind(
    "Pod",
    "pods",
    short_names=("po",),
    categories=("all",),
    strategy=PodStrategy(),
    subresources=(
        Subresource(name="attach", kind="PodAttachOptions", version="v1", verbs=("create", "get")),
        Subresource(name="binding", kind="Binding", version="v1", verbs=("create",)),
        Subresource(name="ephemeralcontainers", kind="Pod", version="v1"),
        Subresource(name="eviction", kind="Eviction", group="policy", version="v1", verbs=("create",)),
        Subresource(name="exec", kind="PodExecOptions", version="v1", verbs=("create", "get")),
        Subresource(name="log", kind="Pod", version="v1", verbs=("get",)),
        Subresource(name="portforward", kind="PodPortForwardOptions", version="v1", verbs=("create", "get")),
        proxy_of("Pod"),
        Subresource(name="resize", kind="Pod", version="v1"),
        status_of("Pod"),
    ),
)

CORE: tuple[Resource, ...] = (
    core_kind("Binding", "bindings", verbs=("create",)),
    core_kind("ConfigMap", "configmaps", strategy=ConfigMapStrategy(), short_names=("cm",)),
    core_kind(
        "Endpoints",
        "endpoints",
        strategy=EndpointsStrategy(),
        short_names=("ep",),
        singular="endpoints",
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    core_kind("Event", "events", strategy=CoreEventStrategy(), short_names=("ev",)),
    core_kind("LimitRange", "limitranges", strategy=LimitRangeStrategy(), short_names=("limits",)),
    core_kind(
        "Namespace",
        "namespaces",
        strategy=NamespaceStrategy(),
        namespaced=False,
        short_names=("ns",),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources=(
            Subresource(name="finalize", kind="Namespace", version="v1", verbs=("update",)),
            status_of("Namespace"),
        ),
    ),
    core_kind(
        "Node",
        "nodes",
        strategy=NodeStrategy(),
        namespaced=False,
        short_names=("no",),
        subresources=(proxy_of("Node"), status_of("Node")),
    ),
    core_kind(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        strategy=ClaimStrategy(),
        short_names=("pvc",),
        subresources=(status_of("PersistentVolumeClaim"),),
    ),
    core_kind(
        "PersistentVolume",
        "persistentvolumes",
        strategy=VolumeStrategy(),
        namespaced=False,
        short_names=("pv",),
        subresources=(status_of("PersistentVolume"),),
    ),
    PODS,
    core_kind("PodTemplate", "podtemplates", strategy=PodTemplateStrategy()),
    core_kind(
        "ReplicationController",
        "replicationcontrollers",
        strategy=ReplicationControllerStrategy(),
        short_names=("rc",),
        categories=("all",),
        subresources=(scale(), status_of("ReplicationController")),
        scale=REPLICAS,
    ),
    core_kind(
        "ResourceQuota",
        "resourcequotas",
        strategy=QuotaStrategy(),
        short_names=("quota",),
        subresources=(status_of("ResourceQuota"),),
    ),
    core_kind("Secret", "secrets", strategy=SecretStrategy()),
    core_kind(
        "ServiceAccount",
        "serviceaccounts",
        strategy=ServiceAccountStrategy(),
        short_names=("sa",),
        subresources=(
            Subresource(
                name="token", kind="TokenRequest", group="authentication.k8s.io", version="v1", verbs=("create",)
            ),
        ),
    ),
    core_kind(
        "Service",
        "services",
        strategy=ServiceStrategy(),
        short_names=("svc",),
        categories=("all",),
        subresources=(proxy_of("Service"), status_of("Service")),
    ),
)
