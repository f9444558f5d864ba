"""Reviews are API objects. A client creates a review to query its own user, the rights of a user, or the user of a
token.

The server stores nothing: its response is the object with its `status` filled in (authentication.k8s.io,
authorization.k8s.io).
"""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apimachinery.meta.objectmeta import now_text
from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apimachinery.meta.status import Cause, StatusError, bad_request, invalid_value
from phalanx.embedded.apimachinery.meta.status import invalid as refusal
from phalanx.embedded.apimachinery.patch.managed_fields import track_create
from phalanx.embedded.apiserver.auth.account_tokens import ISSUER
from phalanx.embedded.apiserver.auth.authentication import Tokens
from phalanx.embedded.apiserver.auth.rbac import MASTERS, AccessRequest, Authorizer, Rule, allows, allows_path

Object = dict[str, Any]
AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    package = group.split(".", 1)[0]
    return Resource(
        group=group,
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=namespaced,
        verbs=("create",),
        schema_name=f"io.k8s.api.{package}.v1.{kind}",
    )


REVIEWS: tuple[Resource, ...] = (
    _review(AUTHENTICATION, "SelfSubjectReview"),
    _review(AUTHENTICATION, "TokenReview"),
    _review(AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
    _review(AUTHORIZATION, "SelfSubjectAccessReview"),
    _review(AUTHORIZATION, "SelfSubjectRulesReview"),
    _review(AUTHORIZATION, "SubjectAccessReview"),
)


# The kinds of reviews whose responses have managed fields.
_TRACKED = ("LocalSubjectAccessReview", "SelfSubjectAccessReview", "SubjectAccessReview")


class Reviewer:
    """Fills in the status of reviews."""

    def __init__(self, tokens: Tokens, authorizer: Authorizer) -> None:
        self._tokens, self._authorizer = tokens, authorizer

    def answer(self, kind: str, obj: Object, user: User, namespace: str = "", manager: str = "") -> Object:
        """Return the review `obj` with its status. Raises `StatusError` 400 or 422 for an incomplete review."""
        spec = obj.get("spec") or {}
        if kind == "LocalSubjectAccessReview":
            obj = obj | {"metadata": {**(obj.get("metadata") or {}), "namespace": namespace}}
        for part in ("resourceAttributes", "nonResourceAttributes"):
            if (asked := spec.get(part)) is not None:
                obj = obj | {"spec": obj["spec"] | {part: {key: value for key, value in asked.items() if value}}}
        if kind in _TRACKED:
            meta = {key: one for key, one in (obj.get("metadata") or {}).items() if key != "managedFields"}
            obj = obj | {"metadata": meta}
            track_create(next(one for one in REVIEWS if one.kind == kind), obj, manager, now_text())
        match kind:
            case "SelfSubjectReview":
                return obj | {"metadata": {"creationTimestamp": now_text()}, "status": {"userInfo": _shown(user)}}
            case "TokenReview":
                return obj | {"status": self._token(spec.get("token", ""), spec.get("audiences") or [])}
            case "SelfSubjectRulesReview":
                return obj | {"spec": {}, "status": self._rules(user, spec.get("namespace", ""))}
            case "SelfSubjectAccessReview":
                _check(obj)
                return obj | {"status": self._verdict(user, spec)}
            case _:
                _check(obj, _subject_causes(spec), _place_causes(spec, namespace) if namespace else None)
                other = User(name=spec.get("user", ""), groups=tuple(spec.get("groups") or ()), uid=spec.get("uid", ""))
                return obj | {"status": self._verdict(other, spec)}

    def _token(self, token: str, audiences: list[str]) -> Object:
        """Return the status of a TokenReview: the user of the token, if the token is valid for one of the audiences (by
        default for this server). Raises `StatusError` 400 for an empty token."""
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        try:
            found = self._tokens.user(b"Bearer " + token.encode())
        except StatusError:
            return {"user": {}, "error": "invalid bearer token"}
        if audiences and ISSUER not in audiences:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _shown(found), "audiences": [ISSUER]}

    def _verdict(self, user: User, spec: Object) -> Object:
        """Return whether a user may make the request that a review describes, and the binding that allows it."""
        return self._decision(user, spec) | _unread_selectors(spec.get("resourceAttributes") or {})

    def _decision(self, user: User, spec: Object) -> Object:
        if not self._allowed(user, spec):
            return {"allowed": False}
        if MASTERS in user.groups:
            return {"allowed": True}
        grants, resource, path = (
            self._authorizer.grants,
            spec.get("resourceAttributes"),
            spec.get("nonResourceAttributes"),
        )
        if resource is not None:
            asked = _asked(resource)
            found = grants.source(user, resource.get("namespace", ""), lambda rule: allows(rule, asked))
        else:
            verb, url = (path or {}).get("verb", ""), (path or {}).get("path", "")
            found = grants.source(user, "", lambda rule: allows_path(rule, verb, url))
        return {"allowed": True} | ({"reason": f"RBAC: allowed by {found}"} if found else {})

    def _allowed(self, user: User, spec: Object) -> bool:
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if resource is not None:
            return self._authorizer.may(user, _asked(resource), resource.get("namespace", ""))
        try:
            assert path is not None  # `_check` has found that the review names a resource or a path
            self._authorizer.path(user, path.get("verb", ""), path.get("path", ""))
        except StatusError:
            return False
        return True

    def _rules(self, user: User, namespace: str) -> Object:
        """Return the user's rules in the namespace. Raises `StatusError` 400 if no namespace is given."""
        if not namespace:
            raise bad_request("no namespace on request")
        rules = self._authorizer.grants.rules(user, namespace)
        return {
            "resourceRules": [_part(rule, _RESOURCES) for rule in rules if rule.get("resources")],
            "nonResourceRules": [_part(rule, _PATHS) for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }


_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


def _unread_selectors(attributes: Object) -> Object:
    """Return the part of a status that reports selectors which the server could not parse."""
    for key in ("fieldSelector", "labelSelector"):
        requirements = (attributes.get(key) or {}).get("requirements") or ()
        if any(one.get("operator") not in _OPERATORS for one in requirements):
            return {"evaluationError": f"spec.resourceAttributes.{key} ignored due to parse error"}
    return {}


def _check(obj: Object, subject: list[Cause] | None = None, place: list[Cause] | None = None) -> None:
    """Check that a review names a resource or a path, but not both. `subject` and `place`: the errors found in its user
    and in its namespace. Raises `StatusError` 422."""
    spec = obj.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes = []
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        causes.append(invalid_value("spec.nonResourceAttributes", _path_shown(path), why))
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes.append(invalid_value("spec.resourceAttributes", None, why))
    is_local = place is not None
    causes += subject or []
    meta = obj.get("metadata") or {}
    if meta.keys() - ({"namespace", "managedFields"} if is_local else {"managedFields"}):
        causes.append(invalid_value("metadata", meta, f"must be empty{' except for namespace' if is_local else ''}"))
    causes += place or []
    if causes:
        raise refusal(AUTHORIZATION, "", "", causes)


def _subject_causes(spec: Object) -> list[Cause]:
    """Return an error for a review that names no user and no group."""
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid_value("spec.user", "", "at least one of user or group must be specified")]


def _place_causes(spec: Object, namespace: str) -> list[Cause]:
    """Return an error for a LocalSubjectAccessReview about another namespace than its own."""
    causes = []
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != namespace:
        asked = resource.get("namespace", "")
        causes.append(invalid_value("spec.resourceAttributes.namespace", asked, "must match metadata.namespace"))
    if path is not None:
        why = "disallowed on this kind of request"
        causes.append(invalid_value("spec.nonResourceAttributes", _path_shown(path), why))
    return causes


def _path_shown(path: Object) -> Object:
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


_RESOURCES = ("verbs", "apiGroups", "resources", "resourceNames")
_PATHS = ("verbs", "nonResourceURLs")


def _part(rule: Rule, keys: tuple[str, ...]) -> Object:
    return {key: rule[key] for key in keys if rule.get(key)}


def _asked(attributes: Object) -> AccessRequest:
    plural, sub = attributes.get("resource", ""), attributes.get("subresource", "")
    shown = f"{plural}/{sub}" if sub else plural
    return AccessRequest(attributes.get("verb", ""), attributes.get("group", ""), shown, attributes.get("name", ""))


def _shown(user: User) -> Object:
    named = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {key: value for key, value in named.items() if value}
