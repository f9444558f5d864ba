"""The built-in kinds that conversations use: the path of their objects, and a valid object of each kind."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from random import Random
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from tests.embedded.fuzz.objects import SPECS

Json = Any

_LEFT_OUT = {
    "Binding",  # is created only below a pod
    "Event",  # its schema combines two API groups
    "CertificateSigningRequest",  # needs a key of its own
    "PodGroup",
    "Workload",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind, the path of its objects, and the name of its definition."""

    kind: str
    api_version: str
    path: str
    namespaced: bool
    schema: str
    subresources: tuple[str, ...]

    def sound(self, name: str) -> Json:
        """Return an object that servers accept."""
        name = name if self.namespaced else f"{name}-${{id}}"
        meta = {"name": name, "labels": {"a": "b", "of": "${ns}"}, "annotations": {"x/y": "z"}}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta, **copy.deepcopy(_SPECS[self.kind])}

    def place(self, obj: Json) -> str:
        return f"{self.path}/{obj['metadata']['name']}"


def _kind(one: Resource) -> Kind:
    root = f"/apis/{one.group}/{one.version}" if one.group else f"/api/{one.version}"
    space = "/namespaces/${ns}" if one.namespaced else ""
    return Kind(
        kind=one.kind,
        api_version=f"{one.group}/{one.version}" if one.group else one.version,
        path=f"{root}{space}/{one.plural}",
        namespaced=one.namespaced,
        schema=one.schema_name,
        subresources=tuple(part.name for part in one.subresources),
    )


def _specs() -> dict[str, Json]:
    """Return the fields other than metadata for each kind: the samples of `fuzz`, with references to this test's
    namespace."""
    policy = copy.deepcopy(SPECS["ValidatingAdmissionPolicy"])
    spaces = {"matchLabels": {"kubernetes.io/metadata.name": "none"}}
    policy["spec"]["matchConstraints"]["namespaceSelector"] = spaces
    webhook = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "namespaceSelector": spaces,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}],
    }
    mutation = copy.deepcopy(policy)
    del mutation["spec"]["validations"]
    configuration = {"applyConfiguration": {"expression": 'Object{metadata: Object.metadata{labels: {"x": "y"}}}'}}
    mutation["spec"] |= {
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", **configuration}],
    }
    claim = copy.deepcopy(SPECS["ResourceClaim"])
    del claim["spec"]["devices"]["config"]  # the real server refuses all later writes of a claim with parameters
    subject = {"kind": "ServiceAccount", "name": "a", "namespace": "default"}
    group = "g${id}.example.com"
    definition = copy.deepcopy(SPECS["CustomResourceDefinition"])
    definition["spec"]["group"] = group
    return {
        **SPECS,
        "ValidatingAdmissionPolicy": policy,
        "ValidatingAdmissionPolicyBinding": {"spec": {"policyName": "none-${id}", "validationActions": ["Deny"]}},
        "MutatingAdmissionPolicy": mutation,
        "MutatingAdmissionPolicyBinding": {"spec": {"policyName": "none-${id}"}},
        "ValidatingWebhookConfiguration": {"webhooks": [webhook]},
        "MutatingWebhookConfiguration": {"webhooks": [{**webhook, "reinvocationPolicy": "Never"}]},
        "ClusterRoleBinding": {**SPECS["ClusterRoleBinding"], "subjects": [subject]},
        "Endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "p", "port": 80}]}]},
        "CustomResourceDefinition": definition,
        "ResourceClaim": claim,
        "ResourceClaimTemplate": {"spec": claim},
    }


_SPECS = _specs()
KINDS = tuple(_kind(one) for one in RESOURCES if one.kind not in _LEFT_OUT and one.version != "v1alpha2")
BY_KIND = {one.kind: one for one in KINDS}


def some_kind(random: Random) -> Kind:
    """Return a kind that any conversation may use. The name of a definition depends on its group, so definitions are
    left out. Quotas are left out, because this server sets their status at once, and on the real server a controller
    does it later."""
    return random.choice([one for one in KINDS if one.kind not in ("CustomResourceDefinition", "ResourceQuota")])
