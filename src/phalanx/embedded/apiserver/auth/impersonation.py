"""Impersonation: `kubectl --as ada --as-group research` acts as ada, if the user has the right to `impersonate` ada.

Headers, as kube-apiserver takes them: `Impersonate-User`, `Impersonate-Group` (any number), `Impersonate-Uid`. Each
name is a right of its own (the verb `impersonate` on users, groups, serviceaccounts, uids); members of system:masters
have them all. The request then counts as the other user's, with that user's rights, and creates objects for that user.
So limits and shares of users can be tested on one machine, and the rights of a role can be checked before it is bound.

Extra fields (`Impersonate-Extra-…`) are ignored, because no decision depends on them.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import bad_request
from phalanx.embedded.apiserver.auth.authentication import ANONYMOUS
from phalanx.embedded.apiserver.auth.authorization import AUTHENTICATED, Authorizer
from phalanx.embedded.apiserver.auth.rbac import AccessRequest

_USER, _GROUP, _UID = _HEADERS = (b"impersonate-user", b"impersonate-group", b"impersonate-uid")
_ACCOUNT = "system:serviceaccount:"


def acting(user: User, headers: Mapping[bytes, bytes], authorizer: Authorizer) -> User:
    """Return the user of the request. Raises `ApiError` 403 if `user` may not act as that user, 400 if no user is
    named.

    Several groups are separated by commas in one header, so a group's name cannot contain one. The right is checked for
    each group.
    """
    if headers.keys().isdisjoint(_HEADERS):
        return user
    name, uid = (headers.get(header, b"").decode(errors="replace") for header in (_USER, _UID))
    groups = tuple(filter(None, map(str.strip, headers.get(_GROUP, b"").decode(errors="replace").split(","))))
    if not name:
        raise bad_request("a group or uid is to be impersonated, but no user: say Impersonate-User as well (--as)")
    for asked, namespace in _rights(name, groups, uid):
        authorizer.resource(user, asked, namespace)
    return User(name=name, uid=uid, groups=_completed(name, groups))


def _rights(name: str, groups: tuple[str, ...], uid: str) -> Iterator[tuple[AccessRequest, str]]:
    """Yield each right that impersonation needs, with its namespace."""
    match _account(name):
        case namespace, account:
            yield AccessRequest("impersonate", "", "serviceaccounts", account), namespace
        case None:
            yield AccessRequest("impersonate", "", "users", name), ""
    for group in groups:
        yield AccessRequest("impersonate", "", "groups", group), ""
    if uid:
        yield AccessRequest("impersonate", "authentication.k8s.io", "uids", uid), ""


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups of the impersonated user: the named groups (if none is named and the user is a service account,
    the groups of service accounts), and the group of all authenticated users. For the anonymous user, add the groups of
    anonymous users instead."""
    if name == ANONYMOUS.name:
        return tuple(dict.fromkeys((*groups, *ANONYMOUS.groups)))
    if not groups and (account := _account(name)):
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    return tuple(dict.fromkeys((*groups, AUTHENTICATED)))


def _account(name: str) -> tuple[str, str] | None:
    """Return the namespace and the name of a service account; None if `name` is not that of a service account's
    user."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    return (namespace, account) if name.startswith(_ACCOUNT) and namespace and account else None
