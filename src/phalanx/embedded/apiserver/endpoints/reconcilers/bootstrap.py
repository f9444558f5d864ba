"""Create the objects of a new cluster: namespaces, system priority classes, the default user roles (`cluster-admin`,
`admin`, `edit`, `view`), and roles that all users have (for discovery, and for reviews of their own access)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.decoding import Intent
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget
from phalanx.embedded.apiserver.storage.store import Store

_log = logging.getLogger(__name__)
_RBAC = "rbac.authorization.k8s.io"
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_SELF = User(name="system:apiserver", groups=("system:masters",))
_PRIORITIES = {
    "system-node-critical": (
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
# Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy, for the kinds that this server has.
_READ, _WRITE = ["get", "list", "watch"], ["create", "delete", "deletecollection", "patch", "update"]
_CORE = (
    *("configmaps", "endpoints", "events", "persistentvolumeclaims", "replicationcontrollers"),
    *("replicationcontrollers/scale", "pods", "pods/log", "pods/status", "services"),
)
_STREAMS = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy")
_SEEN = {
    "": [*_CORE, "replicationcontrollers/status", "serviceaccounts", "limitranges", "resourcequotas", "namespaces"],
    "apps": ["daemonsets", "deployments", "replicasets", "statefulsets"],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["cronjobs", "jobs", "jobs/status"],
    "discovery.k8s.io": ["endpointslices"],
    "metrics.k8s.io": ["nodes", "pods"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
    "resource.k8s.io": ["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"],
}
_EDITED = {
    **_SEEN,
    "": [*_CORE[:-3], "services", "secrets", "serviceaccounts", "serviceaccounts/token", "pods/eviction", *_STREAMS],
    "coordination.k8s.io": ["leases"],
    "resource.k8s.io": ["resourceclaims", "resourceclaimtemplates"],
}


def _rules(verbs: list[str], groups: dict[str, list[str]]) -> list[dict[str, Any]]:
    return [{"apiGroups": [group], "resources": plurals, "verbs": verbs} for group, plurals in groups.items()]


_VIEW = _rules(_READ, _SEEN)
_EDIT = [*_VIEW, *_rules([*_READ, *_WRITE], _EDITED)]
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_WELL_KNOWN = "/.well-known/openid-configuration"
_ISSUER = (_WELL_KNOWN, f"{_WELL_KNOWN}/", "/openid/v1/jwks", "/openid/v1/jwks/")
_ROLES = {
    "cluster-admin": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ],
    "admin": [*_EDIT, *_rules([*_READ, *_WRITE], {"rbac.authorization.k8s.io": ["roles", "rolebindings"]})],
    "edit": _EDIT,
    "view": _VIEW,
    "system:basic-user": [
        *_rules(["create"], {"authorization.k8s.io": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]}),
        *_rules(["create"], {"authentication.k8s.io": ["selfsubjectreviews"]}),
    ],
    "system:discovery": [{"nonResourceURLs": sorted((*_DISCOVERY, *_PUBLIC)), "verbs": ["get"]}],
    "system:public-info-viewer": [{"nonResourceURLs": [*_PUBLIC], "verbs": ["get"]}],
    "system:service-account-issuer-discovery": [{"nonResourceURLs": [*_ISSUER], "verbs": ["get"]}],
}
_BINDINGS = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
}
_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_OWN = {
    "annotations": {_AUTOUPDATE: "true"},
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
}


async def furnish(writer: ObjectWriter, registry: Registry, store: Store) -> None:
    """Create the objects of a new cluster that do not exist yet."""
    for name in NAMESPACES:
        await _ensure(writer, registry, store, "", "namespaces", "", {"metadata": {"name": name}})
    for name, (value, description) in _PRIORITIES.items():
        obj = {"metadata": {"name": name}, "value": value, "description": description}
        await _ensure(writer, registry, store, "scheduling.k8s.io", "priorityclasses", "", obj)
    for name, rules in _ROLES.items():
        await _grant(writer, registry, store, name, rules)
    for name, groups in _BINDINGS.items():
        subjects = [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups]
        reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
        obj = {"metadata": {"name": name, **_OWN}, "subjects": subjects, "roleRef": reference}
        await _ensure(writer, registry, store, _RBAC, "clusterrolebindings", "", obj)


async def _grant(
    writer: ObjectWriter, registry: Registry, store: Store, name: str, rules: list[dict[str, object]]
) -> None:
    """Ensure that a system role has at least these rules, because an earlier version of Phalanx, which had fewer kinds,
    may have created the role. Rules that an administrator added stay. A role with the annotation `autoupdate: false` is
    not changed (bootstrappolicy)."""
    old = store.get((_RBAC, "clusterroles"), "", name)
    if old is None:
        await _ensure(
            writer, registry, store, _RBAC, "clusterroles", "", {"metadata": {"name": name, **_OWN}, "rules": rules}
        )
        return
    resource, held = registry.any_version(_RBAC, "clusterroles"), old.obj.get("rules") or []
    missing = [rule for rule in rules if rule not in held]
    if missing and resource is not None and (old.obj["metadata"].get("annotations") or {}).get(_AUTOUPDATE) == "true":
        intent = Intent(user=_SELF, manager="kube-apiserver")
        obj = {**old.obj, "metadata": dict(old.obj["metadata"]), "rules": [*held, *missing]}
        await _settled(writer.update(RouteTarget(resource=resource, name=name), obj, intent))


async def _ensure(
    writer: ObjectWriter,
    registry: Registry,
    store: Store,
    group: str,
    plural: str,
    namespace: str,
    obj: dict[str, Any],
) -> None:
    resource = registry.any_version(group, plural)
    if resource is None or store.head(resource.key, namespace, obj["metadata"]["name"]) is not None:
        # The object exists already. Do not write it again, because webhooks would be asked about the write, and their
        # pods may not run yet.
        return
    intent = Intent(user=_SELF, manager="kube-apiserver")
    await _settled(writer.create(RouteTarget(resource=resource, namespace=namespace), obj, intent))


async def _settled(write: Awaitable[object]) -> None:
    """Wait for a write, and ignore an error 5xx: it means that a webhook does not respond. The start must not fail
    then, because the pods of the webhook can run only after the start of the server. The next start tries the write
    again. Raises `StatusError` for other errors."""
    try:
        await write
    except StatusError as error:
        if error.code < 500:
            raise
        _log.warning("an object that every new cluster needs was not written: %s", error.message)
