"""The paths of version, health, discovery and OpenAPI."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

from phalanx.embedded.apiserver.endpoints.parts.discovery import Discovery
from phalanx.embedded.apiserver.registry.routing import Registry, method_not_allowed, no_such_path
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response, json_response, text_response

_CHECKS = ("/ping", "/log", "/etcd")
_READY = (*_CHECKS, "/etcd-readiness", "/informer-sync", "/shutdown")
_HEALTH = {"/healthz": _CHECKS, "/livez": _CHECKS, "/readyz": _READY}  # path -> its checks
_HEALTH_PATHS = frozenset(f"{path}{check}" for path, checks in _HEALTH.items() for check in ("", *checks))
_PATHS = ("/api", "/api/v1", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/version")
# The API version. The suffix "+phalanx" shows that the server is not a build of Kubernetes itself.
VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.0+phalanx",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": f"python{platform.python_version()}",
    "compiler": "cpython",
    "platform": "linux/amd64",
}


class Public:
    """Handles requests for the paths of version, health, discovery and OpenAPI. `last`: returns the groups that
    discovery lists last."""

    def __init__(self, registry: Registry, last: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._registry = registry
        self._discovery = Discovery(registry, last)

    def answer(self, request: HttpRequest) -> Response:
        """Return the response to a request for a path that names no object. Raises `StatusError` 404 for a path that
        does not exist."""
        path = request.path.rstrip("/") or "/"
        if path == "/version":
            if request.method != "GET":
                raise method_not_allowed()
            if not any(one.media == negotiation.JSON for one in request.accept):
                raise negotiation.not_acceptable(negotiation.JSON)
            return json_response(VERSION)
        if request.path in _HEALTH_PATHS:
            return text_response(_verbose(request) if request.path in _HEALTH and "verbose" in request.query else "ok")
        if path == "/":
            return json_response({"paths": sorted({*_PATHS, *_HEALTH_PATHS, *self._group_paths()})})
        if (found := self._discovery.answer(request, path)) is not None:
            return found
        if path.startswith("/api/") or (path.startswith("/apis/") and self._registry.builds_in(path.split("/")[2])):
            raise no_such_path()
        return text_response("" if path.startswith("/openapi/v3/") else "404 page not found\n", 404)

    def _group_paths(self) -> Iterator[str]:
        for resource in self._registry.resources:
            if resource.group:
                yield f"/apis/{resource.group}"
                yield f"/apis/{resource.group}/{resource.version}"


def _verbose(request: HttpRequest) -> str:
    """Return the result of each check, as kube-apiserver shows it. A server that responds passes all of them."""
    excluded = set(request.query.get("exclude", ()))
    checks = [check.removeprefix("/") for check in _HEALTH[request.path]]
    lines = [f"[+]{check} {'excluded: ' if check in excluded else ''}ok" for check in checks]
    if unknown := sorted(excluded.difference(checks)):
        names = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    return "\n".join([*lines, f"{request.path.removeprefix('/')} check passed\n"])
