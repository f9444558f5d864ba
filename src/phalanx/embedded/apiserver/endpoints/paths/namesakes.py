"""Kinds of several groups with the same name, and a warning for users who meant the other kind.

`kubectl get queue` asks for the queues of the first group that has some by that name, and kubectl remembers the groups
for hours. If there is no such object and one in another group, the answer says so in a warning with the full name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from phalanx.embedded.apiserver.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apiserver.auth.rbac import AccessRequest
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget
from phalanx.embedded.apiserver.storage.store import Store
from phalanx.embedded.apiserver.transport.request import Request

_ASKING = "kubectl/"  # the user agent; a program names the group that it means


class Namesakes:
    """Finds them. `may`: whether a user may do that in a namespace."""

    def __init__(self, store: Store, registry: Registry, may: Callable[[User, AccessRequest, str], bool]) -> None:
        self._store, self._registry, self._may = store, registry, may

    def hints(self, target: RouteTarget, request: Request) -> tuple[str, ...]:
        """Return a warning for each other kind of the name that has what kubectl looks for, if this one has not."""
        if not request.user_agent.startswith(_ASKING) or self._has(target.resource, target):
            return ()
        found = [one for one in self._others(target.resource) if self._has(one, target)]
        verb = "get" if target.name else "list"
        which = f" {target.name}" if target.name else ""
        return tuple(
            f"no {_full(target.resource)}{which}, but {_full(one)}: kubectl get {_full(one)}{which}"
            for one in found
            if self._may(request.user, AccessRequest(verb, one.group, one.plural, target.name), target.namespace)
        )

    def _others(self, resource: Resource) -> Iterator[Resource]:
        words = _words(resource)
        served = {one.key: one for one in self._registry.resources if one.group != resource.group}
        return (one for one in served.values() if words & _words(one))

    def _has(self, resource: Resource, target: RouteTarget) -> bool:
        namespace = target.namespace if resource.namespaced else ""
        if target.name:
            return self._store.get(resource.key, namespace, target.name) is not None
        everywhere = resource.namespaced and not namespace
        return next(self._store.walk(resource.key, None if everywhere else namespace), None) is not None


def _words(resource: Resource) -> set[str]:
    return {resource.plural, resource.singular, *resource.short_names}


def _full(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}".rstrip(".")
