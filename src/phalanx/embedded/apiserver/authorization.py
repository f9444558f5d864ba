"""Who may do what. Members of `system:masters` may do everything; everybody may ask for the server's version and
health; nobody else may do anything, until there are roles. The words are those of the real server's 403.
"""

from __future__ import annotations

from phalanx.embedded.apiserver.resource import User
from phalanx.embedded.apiserver.status import ApiError

MASTERS, AUTHENTICATED = "system:masters", "system:authenticated"
_PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
# What every authenticated user may read besides: discovery (the role system:discovery).
_DISCOVERY = ("/api", "/apis", "/openapi")


def authorize_path(user: User, verb: str, path: str) -> None:
    """May `user` do `verb` (a lower-case HTTP method) on a path that names no resource? Raises `ApiError` 403."""
    if MASTERS in user.groups or path in _PUBLIC_PATHS:
        return
    authenticated = AUTHENTICATED in user.groups
    if authenticated and verb == "get" and any(path == one or path.startswith(one + "/") for one in _DISCOVERY):
        return
    message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
    raise ApiError(403, "Forbidden", message, details={})


def _asks_of_self(resource: str, verb: str) -> bool:
    """What every user may ask about himself (the role system:basic-user)."""
    return verb == "create" and resource in (
        "selfsubjectreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
    )


def authorize_resource(
    user: User, verb: str, *, group: str, resource: str, namespace: str, name: str, subresource: str = ""
) -> None:
    """May `user` do `verb` (create, get, list …) on a resource? Raises `ApiError` 403."""
    if MASTERS in user.groups or (_asks_of_self(resource, verb) and AUTHENTICATED in user.groups):
        return
    shown = f"{resource}/{subresource}" if subresource else resource
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    why = f'User "{user.name}" cannot {verb} resource "{shown}" in API group "{group}" {where}'
    subject = f"{resource}.{group}" if group else resource
    subject += f' "{name}"' if name else ""
    details = {"name": name, "group": group, "kind": resource}
    raise ApiError(
        403,
        "Forbidden",
        f"{subject} is forbidden: {why}",
        details={key: value for key, value in details.items() if value},
    )
