"""Authenticate users by bearer tokens. A token is either in a static token file, which has kube-apiserver's format
(`--token-auth-file`), or it is the signed token of a service account.

A line of the file is `token,user,uid,"group,group"`. A request without a bearer token has the user system:anonymous. A
wrong token is refused, so that a client with an outdated kubeconfig gets a clear error. The server reads the file again
when it changes, so that an administrator can add a user while the server runs.

Impersonation: with `kubectl --as ada --as-group research` a user acts as ada, if the user has the right to
`impersonate` ada.

The headers are those of kube-apiserver: `Impersonate-User`, `Impersonate-Group` (any number of times) and
`Impersonate-Uid`. For each user, group, service account and uid in these headers, the client's user needs a right: the
verb `impersonate` on users, groups, serviceaccounts or uids. Members of system:masters have all these rights. The
server then treats the request as one of the impersonated user: that user's rights apply, and objects are created in
that user's name. So an administrator can test limits and fair shares of users on one machine, and check the rights of a
role before binding it.

The server ignores extra fields (`Impersonate-Extra-...`), because no decision depends on them.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation.go."""

from __future__ import annotations

import csv
import io
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request, shown
from phalanx.embedded.apiserver.auth.authority import write_private
from phalanx.embedded.apiserver.auth.rbac import AUTHENTICATED, AccessRequest, Authorizer
from phalanx.errors import PhalanxError

ANONYMOUS = User(name="system:anonymous", groups=("system:unauthenticated",))
_AUTHENTICATED = "system:authenticated"
_CHECK_FILE_EVERY_S = 1.0
_log = logging.getLogger(__name__)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


class Tokens:
    """The content of the token file, held in memory. `signed`: checks a token that is not in the file, and returns its
    user."""

    def __init__(self, path: Path, signed: Callable[[bytes], User | None] = lambda token: None) -> None:
        self._path, self._signed = path, signed
        self._stamp: tuple[int, int] | None = None
        self._checked_s = float("-inf")
        self._users: dict[bytes, User] = {}
        self._read()

    def _read(self) -> None:
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                return
            text = self._path.read_text()
        except OSError as error:
            raise PhalanxError(
                f"cannot read the token file {self._path}: {error}. No user could log in. Give this user the right "
                "to read it; or remove it and start again: a new file is then created, and old kubeconfigs become "
                "invalid."
            ) from error
        self._stamp, self._users = stamp, parse(text, self._path)

    def _read_again(self) -> None:
        """Read the token file again. If the file is invalid, keep the users of the previous content."""
        try:
            self._read()
        except PhalanxError as error:
            _log.warning("%s The users of the previous content stay valid.", error)

    def user(self, authorization: bytes) -> User:
        """Return the user of an `Authorization` header. Raises `StatusError` 401.

        Only bearer tokens are read. A request with another scheme, or with an empty token, is anonymous."""
        now_s = time.monotonic()
        if now_s - self._checked_s > _CHECK_FILE_EVERY_S:
            self._checked_s = now_s
            self._read_again()
        scheme, _, rest = authorization.strip().partition(b" ")
        token = rest.partition(b" ")[0]
        if scheme.lower() != b"bearer" or not token:
            return ANONYMOUS
        found = self._users.get(token) or self._signed(token)
        if found is None:
            raise unauthorized()
        return found


def parse(text: str, path: Path) -> dict[bytes, User]:
    """Return the users in the text of a token file, by their tokens. Raises PhalanxError for a line in another format;
    if such a line were ignored, its user could not log in and would not learn why."""
    users = {}
    for number, line in enumerate(csv.reader(text.splitlines()), 1):
        if not line or line[0].startswith("#"):
            continue
        if len(line) < 3 or not line[0] or not line[1]:
            raise PhalanxError(f'{path}:{number}: expected token,user,uid,"group,group"; correct or remove the line')
        groups = [group for group in (line[3].split(",") if len(line) > 3 else []) if group]
        users[line[0].encode()] = User(name=line[1], uid=line[2], groups=(*groups, _AUTHENTICATED))
    return users


def write_tokens(path: Path, users: list[tuple[str, str, tuple[str, ...]]]) -> None:
    """Write a new token file, which only its owner may read. `users`: the name, the uid and the groups of each user.
    Each user gets a random token."""
    rows = [(secrets.token_urlsafe(32), name, uid, ",".join(groups)) for name, uid, groups in users]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_private(path, text.getvalue())


def ensure_user(path: Path, name: str, groups: tuple[str, ...]) -> None:
    """Add a user with a random token to a token file, unless the file has a user of that name. Raises `PhalanxError`,
    OSError."""
    text = path.read_text()
    if all(user.name != name for user in parse(text, path).values()):
        row = io.StringIO()
        csv.writer(row, lineterminator="\n").writerow((secrets.token_urlsafe(32), name, name, ",".join(groups)))
        write_private(path, text + ("" if text.endswith("\n") or not text else "\n") + row.getvalue())


def token_of(path: Path, user: str) -> str:
    """Return the first token of a user in a token file. Raises `PhalanxError` if the user has none."""
    for token, found in parse(path.read_text(), path).items():
        if found.name == user:
            return token.decode()
    raise PhalanxError(f"{path} has no token for the user {user}; add a line: token,{user},,group")


_USER, _GROUP, _UID = _HEADERS = (b"impersonate-user", b"impersonate-group", b"impersonate-uid")
_ACCOUNT = "system:serviceaccount:"


def acting(user: User, headers: Mapping[bytes, bytes], authorizer: Authorizer) -> User:
    """Return the user whose rights the request uses: the impersonated user, or else `user`. Raises `StatusError` 403
    if `user` may not impersonate the other user, and 400 if the headers name no user.

    One header may name several groups, separated by commas, so a group's name cannot contain a comma. The right is
    checked for each group.
    """
    if headers.keys().isdisjoint(_HEADERS):
        return user
    name, uid = (headers.get(header, b"").decode(errors="replace") for header in (_USER, _UID))
    groups = tuple(filter(None, map(str.strip, headers.get(_GROUP, b"").decode(errors="replace").split(","))))
    if not name:
        if not groups and not uid:
            return user
        raise bad_request(_nobody(uid, groups))
    for asked, namespace in _rights(name, groups, uid):
        authorizer.resource(user, asked, namespace)
    return User(name=name, uid=uid, groups=_completed(name, groups))


def _nobody(uid: str, groups: tuple[str, ...]) -> str:
    """Return the error message for headers that name no user. It shows the uid and the groups as Go prints them."""
    listed = "{" + ", ".join(map(shown, groups)) + "}" if groups else "(nil)"
    wanted = f'Name:"", UID:{shown(uid)}, Groups:[]string{listed}, Extra:map[string][]string(nil)'
    return f"requested &user.DefaultInfo{{{wanted}}} without impersonating a user name"


def _rights(name: str, groups: tuple[str, ...], uid: str) -> Iterator[tuple[AccessRequest, str]]:
    """Yield each right that the impersonation needs, with its namespace."""
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
    """Return the groups of the impersonated user: the groups that the headers name, and the group of all authenticated
    users. A service account for which no group is named also gets the groups of service accounts. The anonymous user
    gets the groups of anonymous users instead of the group of authenticated users."""
    if name == ANONYMOUS.name:
        return tuple(dict.fromkeys((*groups, *ANONYMOUS.groups)))
    if not groups and (account := _account(name)):
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    return tuple(dict.fromkeys((*groups, AUTHENTICATED)))


def _account(name: str) -> tuple[str, str] | None:
    """Return the namespace and the name of a service account by its user name; None if `name` is not that of a service
    account."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    return (namespace, account) if name.startswith(_ACCOUNT) and namespace and account else None
