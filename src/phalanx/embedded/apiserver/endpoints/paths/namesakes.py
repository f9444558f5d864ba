"""Kinds of several API groups with the same name, and the warning for a user who probably meant the kind of another
group.

`kubectl get queue` requests the queues of the first group in discovery that has a kind of this name. So discovery lists
groups without objects last. But kubectl caches discovery for hours, and may still request the wrong group. If the
requested object does not exist in that group but exists in another group, the response has a warning. It contains the
full name of the other kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apiserver.auth.rbac import AccessRequest
from phalanx.embedded.apiserver.registry.discovery import version_order
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget
from phalanx.embedded.apiserver.storage.store import Store
from phalanx.embedded.apiserver.transport.request import HttpRequest

_ASKING = "kubectl/"  # the start of kubectl's user agent; other programs name the API group that they mean
_GIVEN = frozenset({"default", "root"})  # the names of objects that Phalanx itself creates


class Namesakes:
    """Finds kinds with the same name in several groups. `may`: returns True if a user has a right in a namespace."""

    def __init__(self, store: Store, registry: Registry, may: Callable[[User, AccessRequest, str], bool]) -> None:
        self._store, self._registry, self._may = store, registry, may

    def hints(self, target: RouteTarget, request: HttpRequest) -> tuple[str, ...]:
        """Return warnings if kubectl requests objects of a kind, and the server has none. There is one warning for each
        kind of the same name in another group that has objects.

        In a list, objects that Phalanx itself creates, such as a queue `default`, do not count.
        """
        if not request.user_agent.startswith(_ASKING) or self._place(target.resource, target) is not None:
            return ()
        verb = "get" if target.name else "list"
        which = f" {target.name}" if target.name else ""
        missing = f"no {_full(target.resource)}{which}"
        if not target.name and (given := sorted(self._names(target.resource, target.namespace))):
            missing += f" besides {' and '.join(given)}"
        found = []
        for one in self._others(target.resource):
            place = self._place(one, target)
            if place is None or not self._may(
                request.user, AccessRequest(verb, one.group, one.plural, target.name), place
            ):
                continue
            where = f" -n {place}" if target.name and place != target.namespace else ""
            found.append(f"{missing}, but {_full(one)}: kubectl get {_full(one)}{which}{where}")
        return tuple(found)

    def unused_groups(self) -> tuple[str, ...]:
        """Return the groups that have no objects, and that have a kind with the same name as a kind of another group.
        Groups for which Phalanx has created an object come first, and built-in groups come last. kubectl searches
        groups in the order of discovery, so discovery lists these groups at its end. Names of stable built-in kinds,
        such as `jobs`, always mean these kinds."""
        of_word = defaultdict[str, dict[str, Resource]](dict)
        for one in self._registry.resources:
            for word in _words(one) if one.verbs else ():
                of_word[word].setdefault(one.group, one)
        alike = [list(of_group.values()) for of_group in of_word.values()]
        shared = [one for each in alike if len(each) > 1 and not any(map(_is_stable, each)) for one in each]
        used = {one.group for one in shared if not _GIVEN.issuperset(self._names(one))}
        found = [one for one in shared if one.group not in used]
        found.sort(key=lambda one: (not one.custom, next(self._names(one), None) is None))
        return tuple(dict.fromkeys(one.group for one in found))

    def _names(self, resource: Resource, namespace: str = "") -> Iterator[str]:
        return (name for _, name, _ in self._store.walk(resource.key, namespace or None))

    def _others(self, resource: Resource) -> Iterator[Resource]:
        words = _words(resource)
        served = {one.key: one for one in self._registry.resources if one.group != resource.group}
        return (one for one in served.values() if words & _words(one))

    def _place(self, resource: Resource, target: RouteTarget) -> str | None:
        """Search the kind for an object of the name that the request states, or for any object. Return the namespace of
        the object; "" if the kind has no namespaces or the request is a list of all namespaces. Return None if there is
        no object."""
        namespace = target.namespace if resource.namespaced else ""
        if target.name and (namespace or not resource.namespaced):
            return namespace if self._store.get(resource.key, namespace, target.name) is not None else None
        everywhere = resource.namespaced and not namespace
        for space, name, _ in self._store.walk(resource.key, None if everywhere else namespace):
            if name == target.name if target.name else name not in _GIVEN:
                return space if target.name else namespace
        return None


def _is_stable(resource: Resource) -> bool:
    return not resource.custom and version_order(resource.version)[:2] == (0, 0)


def _words(resource: Resource) -> set[str]:
    return {resource.plural, resource.singular, *resource.short_names}


def _full(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}".rstrip(".")
