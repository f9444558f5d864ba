"""Authorize requests. Members of `system:masters` may do everything. Every client may read the server's version and
health. Authenticated users may read discovery and review their own access. All other rights come from roles (`rbac`).
The messages of refusals are the real server's.
"""

from __future__ import annotations

from functools import partial

from phalanx.embedded.apimachinery.expressions.authorizer import AuthorizationQuestion, Rights
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import ApiError, forbidden, not_found
from phalanx.embedded.apiserver.auth import rbac
from phalanx.embedded.apiserver.auth.rbac import AccessRequest, Grants, RbacObjects

MASTERS, AUTHENTICATED = "system:masters", "system:authenticated"
_PUBLIC_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
# Paths that every authenticated user may read: discovery (the role system:discovery).
_DISCOVERY = ("/api", "/apis", "/openapi")
# The reviews by which every user may ask about their own rights (the role system:basic-user).
_OF_SELF = frozenset({"selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"})


class Authorizer:
    """Decides whether users may make requests. `objects`: the stored roles and bindings."""

    def __init__(self, objects: RbacObjects) -> None:
        self.grants = Grants(objects)

    def path(self, user: User, verb: str, path: str) -> None:
        """Check whether `user` may do `verb` (a lower-case HTTP method) on a path that names no resource. Raises
        `ApiError` 403."""
        if MASTERS in user.groups or path in _PUBLIC_PATHS:
            return
        known = AUTHENTICATED in user.groups
        if known and verb == "get" and any(path == one or path.startswith(one + "/") for one in _DISCOVERY):
            return
        if any(rbac.allows_path(rule, verb, path) for rule in self.grants.rules(user)):
            return
        message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
        raise ApiError(403, "Forbidden", message, details={})

    def resource(self, user: User, asked: AccessRequest, namespace: str) -> None:
        """Check whether `user` may make the request `asked` in the namespace; "" means the cluster scope. Raises
        `ApiError` 403."""
        if self.may(user, asked, namespace):
            return
        plural = asked.resource.partition("/")[0]
        where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        what = f'resource "{asked.resource}" in API group "{asked.group}" {where}'
        raise forbidden(asked.group, plural, asked.name, f'User "{user.name}" cannot {asked.verb} {what}')

    def may(self, user: User, asked: AccessRequest, namespace: str) -> bool:
        if MASTERS in user.groups:
            return True
        if asked.verb == "create" and asked.resource in _OF_SELF and AUTHENTICATED in user.groups:
            return True
        return any(rbac.allows(rule, asked) for rule in self.grants.rules(user, namespace))

    def rights(self, user: User) -> Rights:
        """Return the function that the expressions of admission call to ask for the user's rights."""
        return partial(self._answer, user)

    def _answer(self, user: User, question: AuthorizationQuestion) -> bool:
        if not question.path:
            asked = AccessRequest(question.verb, question.group, question.resource, question.name)
            return self.may(user, asked, question.namespace)
        try:
            self.path(user, question.verb, question.path)
        except ApiError:
            return False
        return True

    def guard(self, resource: Resource, obj: Object, old: Object | None, user: User) -> None:
        """Refuse a user who writes or binds a role with rights that the user does not have. Raises `ApiError` 403,
        404."""
        if resource.group != rbac.GROUP or MASTERS in user.groups:
            return
        if resource.plural.endswith("bindings"):
            self._guard_binding(resource, obj, old, user)
        elif old is None or old.get("rules") != obj.get("rules"):
            self._guard_rules(
                resource, obj, obj, user, AccessRequest("escalate", rbac.GROUP, resource.plural, _name(obj))
            )

    def _guard_binding(self, resource: Resource, obj: Object, old: Object | None, user: User) -> None:
        if old is not None and old.get("subjects") == obj.get("subjects"):
            return
        reference = obj["roleRef"]
        plural = f"{reference['kind'].lower()}s"
        role = self.grants.role(reference, obj["metadata"].get("namespace", ""))
        if role is None:
            raise not_found(rbac.GROUP, plural, reference["name"])
        self._guard_rules(resource, obj, role, user, AccessRequest("bind", rbac.GROUP, plural, reference["name"]))

    def _guard_rules(self, resource: Resource, obj: Object, role: Object, user: User, instead: AccessRequest) -> None:
        """Refuse rules of `role` that grant rights which the user does not have. `instead`: a user with this right may
        write them all the same."""
        namespace = obj["metadata"].get("namespace", "")
        if self.may(user, instead, namespace):
            return
        missing = rbac.beyond(self.grants.rules(user, namespace), role.get("rules") or ())
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            listed = "\n".join(rbac.shown(rule) for rule in missing)
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                f"{listed}"
            )
            raise forbidden(resource.group, resource.plural, _name(obj), why)


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))
