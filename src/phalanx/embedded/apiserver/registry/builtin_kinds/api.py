"""The built-in kinds that change the API itself: definitions of kinds, admission, and rights."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin_kinds.form import builtin_kind, status_of
from phalanx.embedded.apiserver.registry.crd.crd import DefinitionStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.admission_policy import (
    BindingStrategy,
    PolicyStrategy,
    ValidatingPolicyStrategy,
)
from phalanx.embedded.apiserver.registry.kinds.policy.rbac import RoleBindingStrategy, RoleStrategy
from phalanx.embedded.apiserver.registry.kinds.policy.webhook import WebhookStrategy

API: tuple[Resource, ...] = (
    builtin_kind(
        "apiextensions.k8s.io",
        "v1",
        "apiextensions",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(status_of("CustomResourceDefinition", "apiextensions.k8s.io"),),
        strategy=DefinitionStrategy(),
    ),
    *(
        builtin_kind(
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
    builtin_kind(
        "admissionregistration.k8s.io",
        "v1",
        "admissionregistration",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        namespaced=False,
        strategy=ValidatingPolicyStrategy("validations"),
        subresources=(status_of("ValidatingAdmissionPolicy", "admissionregistration.k8s.io"),),
    ),
    *(
        builtin_kind(
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
