"""Determine which right a request needs. Only the path is used for this, because the server checks rights before it
looks up the path.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from phalanx.embedded.apiserver.auth.rbac import AccessRequest

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SPECIAL = ("proxy", "watch")  # old forms of paths, which begin with the verb
_OF_NAMESPACES = ("status", "finalize")
_OF_COLLECTIONS = {"get": "list", "delete": "deletecollection"}


def attributes(method: str, path: str, *, watch: bool) -> tuple[AccessRequest, str] | None:
    """Return the right that the request needs, and its namespace; None for a path that is not about resources."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, rest = "", parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, rest = parts[1], parts[3:]
    else:
        return None
    verb, namespace = _VERBS.get(method, ""), ""
    if rest[0] in _SPECIAL and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    if not name:
        verb = "watch" if verb == "get" and watch else _OF_COLLECTIONS.get(verb, verb)
    sub = f"/{rest[2]}" if len(rest) > 2 and verb not in _SPECIAL else ""
    return AccessRequest(verb, group, rest[0] + sub, name), namespace
