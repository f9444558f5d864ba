"""Functions that create the description of a built-in kind from its names, and the subresources that several kinds
have."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apiserver.registry.routing import PROXY


def core_kind(kind: str, plural: str, **rest: object) -> Resource:
    return builtin_kind("", "v1", "core", kind, plural, **rest)


def builtin_kind(group: str, version: str, package: str, kind: str, plural: str, **rest: object) -> Resource:
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


def status_of(kind: str, group: str = "", version: str = "v1") -> Subresource:
    return Subresource(name="status", kind=kind, group=group, version=version)


def proxy_of(kind: str) -> Subresource:
    verbs = ("create", "delete", "get", "patch", "update")
    return Subresource(name=PROXY, kind=f"{kind}ProxyOptions", version="v1", verbs=verbs)


def scale() -> Subresource:
    return Subresource(name="scale", kind="Scale", group="autoscaling", version="v1")


REPLICAS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
