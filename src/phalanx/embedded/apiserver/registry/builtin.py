"""The built-in kinds of this server, as discovery lists them.

The server has the kinds that jobs, pods and nodes need. Most other kinds are missing, because no component would act on
them. A few of these are stored all the same, because clients list or write them: daemon sets, HorizontalPodAutoscalers,
network policies, and the kinds that drivers of volumes and devices publish. (The Cluster Autoscaler lists these before
its first loop.) When a client creates an object of such a kind, the response has a warning that nothing acts on the
object. Names, short names, categories and verbs are those of kube-apiserver 1.36.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import ALL_VERBS, Resource, ResourceStrategy, Subresource
from phalanx.embedded.apiserver.registry.crd.crd import DefinitionStrategy
from phalanx.embedded.apiserver.registry.kinds.batch.job import CronJobStrategy, JobStrategy
from phalanx.embedded.apiserver.registry.kinds.batch.pod_group import PodGroupStrategy, PodGroupTemplatesStrategy
from phalanx.embedded.apiserver.registry.kinds.drivers import claims, csi
from phalanx.embedded.apiserver.registry.kinds.drivers.slices import SliceStrategy
from phalanx.embedded.apiserver.registry.kinds.nodes.node import LeaseStrategy, NamespaceStrategy, NodeStrategy
from phalanx.embedded.apiserver.registry.kinds.nodes.scheduling import PriorityClassStrategy, RuntimeClassStrategy
from phalanx.embedded.apiserver.registry.kinds.pods.pod import PodStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.admission_policy import (
    BindingStrategy,
    PolicyStrategy,
    ValidatingPolicyStrategy,
)
from phalanx.embedded.apiserver.registry.kinds.policy.autoscaler import AutoscalerStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.disruption import BudgetStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.limits import LimitRangeStrategy, QuotaStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.rbac import RoleBindingStrategy, RoleStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.signing import SigningRequestStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.webhook import WebhookStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads import event
from phalanx.embedded.apiserver.registry.kinds.workloads.apps import (
    PodTemplateStrategy,
    ReplicationControllerStrategy,
    WorkloadStrategy,
)
from phalanx.embedded.apiserver.registry.kinds.workloads.config import (
    ConfigMapStrategy,
    SecretStrategy,
    ServiceAccountStrategy,
)
from phalanx.embedded.apiserver.registry.kinds.workloads.endpoints import EndpointSliceStrategy, EndpointsStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.event import CoreEventStrategy, EventStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.network import (
    IngressClassStrategy,
    IngressStrategy,
    NetworkPolicyStrategy,
)
from phalanx.embedded.apiserver.registry.kinds.workloads.service import ServiceStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.storage import ClaimStrategy, ClassStrategy, VolumeStrategy
from phalanx.embedded.apiserver.registry.routing import PROXY


def _core(kind: str, plural: str, **rest: object) -> Resource:
    return _kind("", "v1", "core", kind, plural, **rest)


def _kind(group: str, version: str, package: str, kind: str, plural: str, **rest: object) -> Resource:
    """Return a built-in kind. Its singular name, its list kind and the name of its OpenAPI definition are derived from
    `kind`."""
    prefix = "io.k8s.apiextensions-apiserver.pkg.apis." if package == "apiextensions" else "io.k8s.api."
    values: dict[str, Any] = {
        "namespaced": True,
        "singular": kind.lower(),
        "list_kind": f"{kind}List",
        "schema_name": f"{prefix}{package}.{version}.{kind}",
    }
    return Resource(group=group, version=version, kind=kind, plural=plural, **(values | rest))


def _status(kind: str, group: str = "", version: str = "v1") -> Subresource:
    return Subresource(name="status", kind=kind, group=group, version=version)


def _proxy(kind: str) -> Subresource:
    verbs = ("create", "delete", "get", "patch", "update")
    return Subresource(name=PROXY, kind=f"{kind}ProxyOptions", version="v1", verbs=verbs)


def _scale() -> Subresource:
    return Subresource(name="scale", kind="Scale", group="autoscaling", version="v1")


_REPLICAS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _workload(kind: str, short_name: str, *, scales: bool = True) -> Resource:
    """Return a kind of apps/v1. `scales`: True if it has the subresource `/scale`."""
    parts = (_scale(), _status(kind, "apps")) if scales else (_status(kind, "apps"),)
    return _kind(
        "apps",
        "v1",
        "apps",
        kind,
        f"{kind.lower()}s",
        short_names=(short_name,),
        categories=("all",),
        subresources=parts,
        strategy=WorkloadStrategy(kind.lower(), replicated=scales),
        scale=_REPLICAS if scales else None,
    )


def _of_drivers(group: str, kind: str, plural: str, strategy: ResourceStrategy, *, spaced: bool = False) -> Resource:
    """Return a kind without subresources that drivers of volumes (group `storage`) or devices (group `resource`)
    publish."""
    return _kind(f"{group}.k8s.io", "v1", group, kind, plural, strategy=strategy, namespaced=spaced)


PODS = _core(
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
        _proxy("Pod"),
        Subresource(name="resize", kind="Pod", version="v1"),
        _status("Pod"),
    ),
)

JOBS = _kind(
    "batch",
    "v1",
    "batch",
    "Job",
    "jobs",
    strategy=JobStrategy(),
    categories=("all",),
    subresources=(_status("Job", "batch"),),
)

RESOURCES: tuple[Resource, ...] = (
    _core("Binding", "bindings", verbs=("create",)),
    _core("ConfigMap", "configmaps", strategy=ConfigMapStrategy(), short_names=("cm",)),
    _core(
        "Endpoints",
        "endpoints",
        strategy=EndpointsStrategy(),
        short_names=("ep",),
        singular="endpoints",
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    _core("Event", "events", strategy=CoreEventStrategy(), short_names=("ev",)),
    _core("LimitRange", "limitranges", strategy=LimitRangeStrategy(), short_names=("limits",)),
    _core(
        "Namespace",
        "namespaces",
        strategy=NamespaceStrategy(),
        namespaced=False,
        short_names=("ns",),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources=(
            Subresource(name="finalize", kind="Namespace", version="v1", verbs=("update",)),
            _status("Namespace"),
        ),
    ),
    _core(
        "Node",
        "nodes",
        strategy=NodeStrategy(),
        namespaced=False,
        short_names=("no",),
        subresources=(_proxy("Node"), _status("Node")),
    ),
    _core(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        strategy=ClaimStrategy(),
        short_names=("pvc",),
        subresources=(_status("PersistentVolumeClaim"),),
    ),
    _core(
        "PersistentVolume",
        "persistentvolumes",
        strategy=VolumeStrategy(),
        namespaced=False,
        short_names=("pv",),
        subresources=(_status("PersistentVolume"),),
    ),
    PODS,
    _core("PodTemplate", "podtemplates", strategy=PodTemplateStrategy()),
    _core(
        "ReplicationController",
        "replicationcontrollers",
        strategy=ReplicationControllerStrategy(),
        short_names=("rc",),
        categories=("all",),
        subresources=(_scale(), _status("ReplicationController")),
        scale=_REPLICAS,
    ),
    _core(
        "ResourceQuota",
        "resourcequotas",
        strategy=QuotaStrategy(),
        short_names=("quota",),
        subresources=(_status("ResourceQuota"),),
    ),
    _core("Secret", "secrets", strategy=SecretStrategy()),
    _core(
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
    _core(
        "Service",
        "services",
        strategy=ServiceStrategy(),
        short_names=("svc",),
        categories=("all",),
        subresources=(_proxy("Service"), _status("Service")),
    ),
    _workload("DaemonSet", "ds", scales=False),
    _workload("Deployment", "deploy"),
    _workload("ReplicaSet", "rs"),
    _workload("StatefulSet", "sts"),
    _kind(
        "batch",
        "v1",
        "batch",
        "CronJob",
        "cronjobs",
        strategy=CronJobStrategy(),
        short_names=("cj",),
        categories=("all",),
        subresources=(_status("CronJob", "batch"),),
    ),
    JOBS,
    _kind(
        "certificates.k8s.io",
        "v1",
        "certificates",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        namespaced=False,
        strategy=SigningRequestStrategy(),
        short_names=("csr",),
        subresources=(
            Subresource(name="approval", kind="CertificateSigningRequest", group="certificates.k8s.io", version="v1"),
            _status("CertificateSigningRequest", "certificates.k8s.io"),
        ),
    ),
    _kind(
        "autoscaling",
        "v2",
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        strategy=AutoscalerStrategy(),
        short_names=("hpa",),
        categories=("all",),
        subresources=(_status("HorizontalPodAutoscaler", "autoscaling", "v2"),),
    ),
    _kind("coordination.k8s.io", "v1", "coordination", "Lease", "leases", strategy=LeaseStrategy()),
    _kind("discovery.k8s.io", "v1", "discovery", "EndpointSlice", "endpointslices", strategy=EndpointSliceStrategy()),
    _kind(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        "events",
        strategy=EventStrategy(),
        short_names=("ev",),
        storage=("", "events"),
        to_stored=event.to_core,
        from_stored=event.from_core,
    ),
    _kind(
        "networking.k8s.io",
        "v1",
        "networking",
        "NetworkPolicy",
        "networkpolicies",
        strategy=NetworkPolicyStrategy(),
        short_names=("netpol",),
    ),
    _kind(
        "networking.k8s.io",
        "v1",
        "networking",
        "Ingress",
        "ingresses",
        strategy=IngressStrategy(),
        short_names=("ing",),
        subresources=(_status("Ingress", "networking.k8s.io"),),
    ),
    _kind(
        "networking.k8s.io",
        "v1",
        "networking",
        "IngressClass",
        "ingressclasses",
        strategy=IngressClassStrategy(),
        namespaced=False,
    ),
    _kind(
        "node.k8s.io", "v1", "node", "RuntimeClass", "runtimeclasses", strategy=RuntimeClassStrategy(), namespaced=False
    ),
    _kind(
        "policy",
        "v1",
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        strategy=BudgetStrategy(),
        short_names=("pdb",),
        subresources=(_status("PodDisruptionBudget", "policy"),),
    ),
    _kind(
        "scheduling.k8s.io",
        "v1",
        "scheduling",
        "PriorityClass",
        "priorityclasses",
        strategy=PriorityClassStrategy(),
        namespaced=False,
        short_names=("pc",),
    ),
    _kind(
        "scheduling.k8s.io",
        "v1alpha2",
        "scheduling",
        "PodGroup",
        "podgroups",
        strategy=PodGroupStrategy(),
        subresources=(_status("PodGroup", "scheduling.k8s.io", "v1alpha2"),),
    ),
    _kind(
        "scheduling.k8s.io",
        "v1alpha2",
        "scheduling",
        "Workload",
        "workloads",
        strategy=PodGroupTemplatesStrategy(),
    ),
    _kind(
        "storage.k8s.io",
        "v1",
        "storage",
        "StorageClass",
        "storageclasses",
        strategy=ClassStrategy(),
        namespaced=False,
        short_names=("sc",),
    ),
    _of_drivers("storage", "CSIDriver", "csidrivers", csi.DriverStrategy()),
    _of_drivers("storage", "CSINode", "csinodes", csi.NodeDriversStrategy()),
    _of_drivers("storage", "CSIStorageCapacity", "csistoragecapacities", csi.CapacityStrategy(), spaced=True),
    _kind(
        "storage.k8s.io",
        "v1",
        "storage",
        "VolumeAttachment",
        "volumeattachments",
        strategy=csi.AttachmentStrategy(),
        namespaced=False,
        subresources=(_status("VolumeAttachment", "storage.k8s.io"),),
    ),
    _of_drivers("resource", "DeviceClass", "deviceclasses", claims.DeviceClassStrategy()),
    _kind(
        "resource.k8s.io",
        "v1",
        "resource",
        "ResourceClaim",
        "resourceclaims",
        strategy=claims.ResourceClaimStrategy(),
        subresources=(_status("ResourceClaim", "resource.k8s.io"),),
    ),
    _of_drivers(
        "resource", "ResourceClaimTemplate", "resourceclaimtemplates", claims.ClaimTemplateStrategy(), spaced=True
    ),
    _of_drivers("resource", "ResourceSlice", "resourceslices", SliceStrategy()),
    _kind(
        "apiextensions.k8s.io",
        "v1",
        "apiextensions",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(_status("CustomResourceDefinition", "apiextensions.k8s.io"),),
        strategy=DefinitionStrategy(),
    ),
    *(
        _kind(
            "admissionregistration.k8s.io",
            "v1",
            "admissionregistration",
            kind,
            plural,
            namespaced=False,
            strategy=rules,
        )
        for kind, plural, rules in (
            ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", PolicyStrategy("mutations")),
            ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", BindingStrategy(acts=False)),
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", WebhookStrategy(mutates=True)),
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", WebhookStrategy(mutates=False)),
            ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", BindingStrategy(acts=True)),
        )
    ),
    _kind(
        "admissionregistration.k8s.io",
        "v1",
        "admissionregistration",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        namespaced=False,
        strategy=ValidatingPolicyStrategy("validations"),
        subresources=(_status("ValidatingAdmissionPolicy", "admissionregistration.k8s.io"),),
    ),
    *(
        _kind(
            "rbac.authorization.k8s.io",
            "v1",
            "rbac",
            kind,
            plural,
            namespaced=not kind.startswith("Cluster"),
            strategy=RoleBindingStrategy() if kind.endswith("Binding") else RoleStrategy(),
        )
        for kind, plural in (
            ("ClusterRole", "clusterroles"),
            ("ClusterRoleBinding", "clusterrolebindings"),
            ("Role", "roles"),
            ("RoleBinding", "rolebindings"),
        )
    ),
)


def emulating(version: str) -> tuple[Resource, ...]:
    """Return the built-in kinds, in which Jobs behave as in the Kubernetes release `version`. `version`: one of the
    `EMULATED_VERSIONS` of Jobs."""
    jobs = replace(JOBS, strategy=JobStrategy(version))
    return tuple(jobs if one is JOBS else one for one in RESOURCES)
