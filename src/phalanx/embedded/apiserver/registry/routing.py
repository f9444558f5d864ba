"""Find the resource that a path names. `Registry` contains the served kinds, and `locate` finds the resource of a path.

A path begins with `/api/v1/` for the core group, or with `/apis/GROUP/VERSION/` for any other group. The rest of the
path is `RESOURCE[/NAME[/SUBRESOURCE]]` or `namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]`. For a watch, old
clients put `watch/` before this rest. `namespaces/X/status` is always the subresource of the namespace, and never a
collection named status.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from phalanx.embedded.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request, not_found

PROXY = "proxy"
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


def no_such_path() -> StatusError:
    """Return the error 404 for a path that begins with a served group but does not exist."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


class Registry:
    """The served kinds: the built-in kinds, and those that CustomResourceDefinitions add at run time. `generation`
    counts changes, so that documents about all kinds (discovery, OpenAPI) are computed again after a change.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._served: dict[tuple[str, str], dict[str, Resource]] = {}
        self.generation = 0
        self._resources: tuple[Resource, ...] = ()
        self._forms: dict[tuple[str, str], tuple[Resource, ...]] = {}
        self.replace(resources)

    def replace(self, resources: Iterable[Resource]) -> None:
        """Serve exactly these resources from now on."""
        self._resources = tuple(resources)
        self._served = {}
        stored: dict[tuple[str, str], list[Resource]] = {}
        for one in self._resources:
            self._served.setdefault((one.group, one.version), {})[one.plural] = one
            stored.setdefault(one.key, []).append(one)
        self._forms = {key: tuple(found) for key, found in stored.items()}
        self.generation += 1

    @property
    def resources(self) -> tuple[Resource, ...]:
        return self._resources

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._served.get((group, version), {}).get(plural)

    def forms(self, resource: Resource) -> tuple[Resource, ...]:
        """Return the served kinds that show the same stored objects as `resource`, including `resource` itself: all
        versions of the kind, and its namesake in another group (such as the Events of events.k8s.io)."""
        return self._forms.get(resource.key, ())

    def any_version(self, group: str, plural: str) -> Resource | None:
        """Return the kind that is stored under this group and plural, in the first of its served versions."""
        return next((one for one in self._resources if one.group == group and one.plural == plural), None)

    def builds_in(self, group: str) -> bool:
        """Return True if the group is built in. For an unknown path of a built-in group the response is a Status. For a
        group of CustomResourceDefinitions, and for an unknown group, the response is plain text."""
        return any(one.group == group and not one.custom for one in self._resources)

    def serves_version(self, group: str, version: str) -> bool:
        return (group, version) in self._served


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTarget:
    """The target that a path names. `namespace`: "" for a cluster-scoped kind, and for a request about all
    namespaces."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: Subresource | None = None
    watch: bool = False

    @property
    def sub(self) -> str:
        return self.subresource.name if self.subresource else ""


def locate(registry: Registry, path: str) -> RouteTarget | None:
    """Return the target of a path; None for a path that is not about a resource (discovery, health, or an invalid
    path).

    Raises `StatusError` 404 for a path of a served group that names no resource of the group.
    """
    parts = path.split("/")[1:]
    if parts[0] == "api" and len(parts) > 2 and parts[1] == "v1":
        group, version, rest = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
        if not registry.serves_version(group, version):
            if registry.builds_in(group):
                raise no_such_path()
            return None
    else:
        return None
    if rest[-1] == "":
        rest = rest[:-1]
    return _target(registry, group, version, rest) if rest else None


def _target(registry: Registry, group: str, version: str, rest: list[str]) -> RouteTarget | None:
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and _own(rest)):
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    proxied = len(rest) > 3 and rest[2] == PROXY  # the parts after `proxy` are the path of the forwarded request
    if resource is None or (namespace and not resource.namespaced):
        if registry.builds_in(group):
            raise no_such_path()
        return None
    name = rest[1] if len(rest) > 1 else ""
    if len(rest) > 3 and not proxied:
        raise _no_such_part(resource, name)
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    sub = None
    if len(rest) >= 3:
        sub = resource.subresource(rest[2])
        if sub is None:
            raise _no_such_part(resource, name)
    return RouteTarget(resource=resource, namespace=namespace, name=name, subresource=sub, watch=watch)


def _no_such_part(resource: Resource, name: str) -> StatusError:
    """Return the error 404 for a path with an unknown subresource."""
    return not_found(resource.group, resource.plural, name) if resource.custom else no_such_path()


def _own(rest: list[str]) -> bool:
    """Return True if the path `namespaces/X/status` means the status of the namespace itself."""
    return len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES


_NAMED = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_IN_ONE_NAMESPACE = ("create", "deletecollection")
_COLLECTION = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


def verb_of(target: RouteTarget, method: str, watch: bool) -> str:
    """Return the verb of a request in the terms of RBAC and discovery. Raises `StatusError` 405."""
    resource, sub = target.resource, target.subresource
    if sub is not None:
        method = "GET" if method == "HEAD" and sub.name == PROXY else method
        verb = "create" if method == "POST" else _NAMED.get(method, "")
        allowed: Iterable[str] = sub.verbs
    elif target.name and not target.watch:
        verb, allowed = _NAMED.get(method, ""), resource.verbs
    else:
        if resource.custom and method in ("PUT", "PATCH"):
            raise bad_request("name must be provided")
        verb, allowed = _COLLECTION.get(method, ""), resource.verbs
        if verb == "list" and (watch or target.watch):
            verb = "watch"
    everywhere = resource.namespaced and not target.namespace and (target.name or verb in _IN_ONE_NAMESPACE)
    if verb not in allowed or everywhere:
        raise method_not_allowed()
    return verb
