"""The built-in kinds of services, nodes and scheduling: networking, leases, policies, and similar kinds."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apiserver.registry.builtin_kinds.form import builtin_kind, status_of
from phalanx.embedded.apiserver.registry.kinds.batch.pod_group import PodGroupStrategy, PodGroupTemplatesStrategy
from phalanx.embedded.apiserver.registry.kinds.nodes.node import LeaseStrategy
from phalanx.embedded.apiserver.registry.kinds.nodes.scheduling import PriorityClassStrategy, RuntimeClassStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.autoscaler import AutoscalerStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.disruption import BudgetStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.signing import SigningRequestStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads import event
from phalanx.embedded.apiserver.registry.kinds.workloads.endpoints import EndpointSliceStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.event import EventStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.network import (
    IngressClassStrategy,
    IngressStrategy,
    NetworkPolicyStrategy,
)

CLUSTER: tuple[Resource, ...] = (
    builtin_kind(
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
            status_of("CertificateSigningRequest", "certificates.k8s.io"),
        ),
    ),
    builtin_kind(
        "autoscaling",
        "v2",
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        strategy=AutoscalerStrategy(),
        short_names=("hpa",),
        categories=("all",),
        subresources=(status_of("HorizontalPodAutoscaler", "autoscaling", "v2"),),
    ),
    builtin_kind("coordination.k8s.io", "v1", "coordination", "Lease", "leases", strategy=LeaseStrategy()),
    builtin_kind(
        "discovery.k8s.io", "v1", "discovery", "EndpointSlice", "endpointslices", strategy=EndpointSliceStrategy()
    ),
    builtin_kind(
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
    builtin_kind(
        "networking.k8s.io",
        "v1",
        "networking",
        "NetworkPolicy",
        "networkpolicies",
        strategy=NetworkPolicyStrategy(),
        short_names=("netpol",),
    ),
    builtin_kind(
        "networking.k8s.io",
        "v1",
        "networking",
        "Ingress",
        "ingresses",
        strategy=IngressStrategy(),
        short_names=("ing",),
        subresources=(status_of("Ingress", "networking.k8s.io"),),
    ),
    builtin_kind(
        "networking.k8s.io",
        "v1",
        "networking",
        "IngressClass",
        "ingressclasses",
        strategy=IngressClassStrategy(),
        namespaced=False,
    ),
    builtin_kind(
        "node.k8s.io", "v1", "node", "RuntimeClass", "runtimeclasses", strategy=RuntimeClassStrategy(), namespaced=False
    ),
    builtin_kind(
        "policy",
        "v1",
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        strategy=BudgetStrategy(),
        short_names=("pdb",),
        subresources=(status_of("PodDisruptionBudget", "policy"),),
    ),
    builtin_kind(
        "scheduling.k8s.io",
        "v1",
        "scheduling",
        "PriorityClass",
        "priorityclasses",
        strategy=PriorityClassStrategy(),
        namespaced=False,
        short_names=("pc",),
    ),
    builtin_kind(
        "scheduling.k8s.io",
        "v1alpha2",
        "scheduling",
        "PodGroup",
        "podgroups",
        strategy=PodGroupStrategy(),
        subresources=(status_of("PodGroup", "scheduling.k8s.io", "v1alpha2"),),
    ),
    builtin_kind(
        "scheduling.k8s.io",
        "v1alpha2",
        "scheduling",
        "Workload",
        "workloads",
        strategy=PodGroupTemplatesStrategy(),
    ),
)
