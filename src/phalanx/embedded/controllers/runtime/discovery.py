"""Find the served kinds whose objects can be listed, watched and deleted, including custom resources."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.runtime.calls import Calls

_NEEDED = {"list", "watch", "delete"}
# Events expire, and have no owners (kube-controller-manager ignores them as well).
IGNORED = {("", "events"), ("events.k8s.io", "events")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The kinds that the server serves. `kinds`: each deletable resource once, in the preferred version of its group,
    or in the first version that has it. `named`: (apiVersion, kind) -> the kind, for every served version. `verbs`:
    kind -> its verbs."""

    kinds: tuple[Kind, ...]
    named: dict[tuple[str, str], Kind]
    verbs: dict[Kind, frozenset[str]]

    def deletable_in_namespaces(self) -> list[Kind]:
        return [kind for kind in self.kinds if kind.namespaced]


async def discover(calls: Calls) -> Catalog:
    """Return the catalogue of the server's kinds. Raises ApiError if a part of it cannot be read: with an incomplete
    catalogue, existing owners would count as missing."""
    groups = (await calls.request("GET", "/apis"))["groups"]
    asked = [("", "v1", True)]
    for group in groups:
        preferred = group["preferredVersion"]["version"]
        asked += [(group["name"], one["version"], one["version"] == preferred) for one in group["versions"]]
    lists = await asyncio.gather(*(_resources(calls, group, version) for group, version, _ in asked))
    named: dict[tuple[str, str], Kind] = {}
    verbs: dict[tuple[str, str], tuple[Kind, frozenset[str]]] = {}
    for (group, version, preferred), resources in zip(asked, lists, strict=True):
        for resource in resources:
            if "/" in resource["name"]:
                continue
            kind = _kind(group, version, resource)
            named[kind.api_version, kind.name] = kind
            if set(resource["verbs"]) >= _NEEDED and (preferred or (group, kind.plural) not in verbs):
                verbs[group, kind.plural] = kind, frozenset(resource["verbs"])
    return Catalog(kinds=tuple(kind for kind, _ in verbs.values()), named=named, verbs=dict(verbs.values()))


async def _resources(calls: Calls, group: str, version: str) -> list[dict[str, Any]]:
    """Return the group's resources; an empty list if the group was removed after the list of groups was read."""
    try:
        found: list[dict[str, Any]] = (await calls.request("GET", _path(group, version)))["resources"]
    except ApiRefusal as refusal:
        if refusal.code != 404:
            raise
        return []
    return found


def _path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _kind(group: str, version: str, resource: dict[str, Any]) -> Kind:
    return Kind(
        group=group,
        version=version,
        plural=resource["name"],
        name=resource["kind"],
        namespaced=resource["namespaced"],
    )
