"""A Unix user as a user of the cluster: the same user name, the names of the user's groups, and a token.

Tokens are lines of the API server's token file, kube-apiserver's `--token-auth-file`: `token,user,uid,"group,group"`.
The uid of a Unix user is `unix:NUMBER`. So a Unix user with the name of another user of the cluster (`admin`) does not
get that user's token. Unix names have no colon, so no Unix group is named like `system:masters`.
"""

from __future__ import annotations

import csv
import grp
import io
import os
import pwd
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

USERS, MASTERS = "phalanx:users", "system:masters"
_NAME_CHARS = 50  # a namespace has 63 at most


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAccount:
    """An account. `uid`, `gid`: the Unix numbers. `groups`: the names of the user's groups in the cluster."""

    uid: int
    gid: int
    name: str
    groups: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"unix:{self.uid}"

    def namespace(self, *, numbered: bool = False) -> str:
        """Return the name of the user's namespace. `numbered`: True to add the uid, because another user has the plain
        name."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:_NAME_CHARS].strip("-")
        number = (str(self.uid),) if numbered or not plain else ()
        return "-".join(("user", *filter(None, (plain,)), *number))


def account_of(uid: int, gid: int) -> LoginAccount:
    """Return the account of the user with these numbers, who may have no name on this machine. Root is in the group
    `system:masters`, because root can read the data directory of the cluster anyway."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return LoginAccount(uid=uid, gid=gid, name=f"uid-{uid}", groups=(USERS,))
    named = []
    for number in os.getgrouplist(entry.pw_name, entry.pw_gid):
        try:
            named.append(grp.getgrgid(number).gr_name)
        except KeyError:  # a group without a name has no meaning in the cluster
            continue
    groups = (USERS, *dict.fromkeys(named), *((MASTERS,) if uid == 0 else ()))
    return LoginAccount(uid=uid, gid=entry.pw_gid, name=entry.pw_name, groups=groups)


def token_for(path: Path, account: LoginAccount) -> str:
    """Return the account's token in the token file, or write a new one. The line gets the present groups of the user.

    Raises OSError. Only one process may write the file."""
    rows = [row for row in csv.reader(path.read_text().splitlines()) if row]
    mine = next((row for row in rows if len(row) > 2 and row[2] == account.key), None)
    row = [mine[0] if mine else secrets.token_urlsafe(32), account.name, account.key, ",".join(account.groups)]
    if mine != row:
        rows = [one for one in rows if one is not mine]
        _write(path, [*rows, row])
    return row[0]


def _write(path: Path, rows: list[list[str]]) -> None:
    """Replace the file in one step; only its owner may read it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text.getvalue())
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
