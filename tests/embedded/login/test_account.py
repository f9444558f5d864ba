"""The cluster's user of a Unix user, and the lines of the token file."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from phalanx.embedded.apiserver.auth.authentication import parse
from phalanx.embedded.login.admission import MASTERS, USERS, LoginAccount, account_of, token_for

ADA = LoginAccount(uid=51234, gid=51234, name="ada", groups=(USERS, "vision"))


def test_root_is_a_master_and_nobody_else_is() -> None:
    assert MASTERS in account_of(0, 0).groups
    assert account_of(51234, 51235) == LoginAccount(uid=51234, gid=51235, name="uid-51234", groups=(USERS,))
    nobody = pwd.getpwnam("nobody")
    assert (account_of(nobody.pw_uid, 0).name, account_of(nobody.pw_uid, 0).gid) == ("nobody", nobody.pw_gid)
    assert MASTERS not in account_of(nobody.pw_uid, 0).groups


def test_a_namespace_has_a_valid_name_and_another_where_that_is_taken() -> None:
    odd = LoginAccount(uid=7, gid=7, name="Ada.L@ovelace-" + "x" * 60, groups=())
    assert odd.namespace().startswith("user-ada-l-ovelace-x")
    assert len(odd.namespace(numbered=True)) <= 63
    assert LoginAccount(uid=7, gid=7, name="…", groups=()).namespace() == "user-7"


def test_a_token_stays_and_its_groups_follow(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('secret,admin,admin,"system:masters"\n')
    token = token_for(file, ADA)
    assert token_for(file, ADA) == token
    stamp = file.stat().st_mtime_ns
    assert token_for(file, ADA) == token
    assert file.stat().st_mtime_ns == stamp  # nothing to write
    moved = LoginAccount(uid=51234, gid=51234, name="ada", groups=(USERS, "speech"))
    assert token_for(file, moved) == token
    users = parse(file.read_text(), file)
    assert users[token.encode()].groups == (USERS, "speech", "system:authenticated")
    assert users[b"secret"].name == "admin"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_unix_user_named_admin_is_not_the_admin(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('secret,admin,admin,"system:masters"\n')
    token = token_for(file, LoginAccount(uid=51234, gid=51234, name="admin", groups=(USERS,)))
    assert token != "secret"
    assert MASTERS not in parse(file.read_text(), file)[token.encode()].groups
    assert os.path.exists(file)
