"""`shim/privileges.py`: the user, the groups and the capabilities of a program."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.container.shim import privileges
from phalanx.embedded.node.container.shim.privileges import become_user, home, rights_of_user
from phalanx.embedded.node.container.shim.syscalls import PR_CAPBSET_DROP, SyscallRefused
from tests.embedded.node.container.test_shim_syscalls import as_root, in_child

PASSWD = """\
root:x:0:0:root:/root:/bin/sh
ada:x:1000:1001:Ada:/home/ada:/bin/sh
# a comment
1234:x:77:78:a user whose name is a number:/home/odd:/bin/sh
broken:x:notanumber:0:::
homeless:x:1002:1002:::/bin/sh
"""
GROUP = """\
root:x:0:
ada:x:1001:
wheel:x:10:ada,bob
video:x:44:bob,ada
short:x:9
nobody:x:x:ada
"""


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the image's /etc/passwd and /etc/group."""
    (tmp_path / "passwd").write_text(PASSWD)
    (tmp_path / "group").write_text(GROUP)
    read = privileges._accounts
    monkeypatch.setattr(privileges, "_accounts", lambda path, fields: read(str(tmp_path / Path(path).name), fields))
    return tmp_path


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The calls that change the user, in order. None is carried out."""
    calls: list[tuple[str, Any]] = []
    for name in ("setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, name, lambda value, name=name: calls.append((name, value)))

    def prctl(option: int, number: int, *_: int) -> int:
        if number > 40:
            return -1  # the kernel knows no such capability
        calls.append(("drop" if option == PR_CAPBSET_DROP else str(option), number))
        return 0

    monkeypatch.setattr(privileges, "libc", SimpleNamespace(prctl=prctl))
    return calls


def spec(of_image: str, **more: Any) -> dict[str, Any]:
    return {"root": {"user": of_image}, **more}


def test_a_program_without_a_user_stays_who_it_is(became: list[tuple[str, Any]]) -> None:
    become_user({})
    assert became == []


def test_groups_are_set_before_the_user_who_could_set_none(became: list[tuple[str, Any]]) -> None:
    become_user({"user": 7, "group": 8, "groups": [8, 9]})
    assert became == [("setgroups", [8, 9]), ("setgid", 8), ("setuid", 7)]
    became.clear()
    become_user({"user": 7, "group": 8})
    assert became[0] == ("setgroups", [8]), "the groups of the agent are dropped"


@pytest.mark.parametrize(
    ("said", "user", "groups"),
    [
        ("", 0, [0]),
        ("ada", 1000, [1001, 10, 44]),
        ("1000", 1000, [1001, 10, 44]),
        ("1234", 1234, [0]),  # a number is an id, even if a user has it as a name
        ("5000", 5000, [0]),
        ("5000:video", 5000, [44]),
        ("ada:0", 1000, [0]),  # OCI image-spec: with a group, the further groups of the user are ignored
        ("ada:wheel", 1000, [10]),
    ],
)
def test_the_user_of_an_image_is_looked_up_in_the_image(
    image: Path, became: list[tuple[str, Any]], said: str, user: int, groups: list[int]
) -> None:
    become_user(spec(said))
    assert became == [("setgroups", groups), ("setgid", groups[0]), ("setuid", user)]


def test_the_user_and_group_of_the_pod_come_before_those_of_the_image(
    image: Path, became: list[tuple[str, Any]]
) -> None:
    """Kubernetes: the groups of the image's /etc/group for this user are merged."""
    become_user(spec("nobody-there", user=1000))
    assert became[0] == ("setgroups", [1001, 10, 44])
    became.clear()
    become_user(spec("ada", user=1000, group=3000))
    assert became == [("setgroups", [3000, 10, 44]), ("setgid", 3000), ("setuid", 1000)]


@pytest.mark.parametrize(
    ("said", "path"), [("eve", "/etc/passwd"), ("ada:eve", "/etc/group"), ("broken", "/etc/passwd")]
)
def test_a_name_that_the_image_does_not_have_is_refused(
    image: Path, became: list[tuple[str, Any]], said: str, path: str
) -> None:
    with pytest.raises(SyscallRefused, match=f"the image names '{said.split(':')[-1]}', which is not in its {path}"):
        become_user(spec(said))
    assert became == [], "the program keeps no half of another user"


def test_an_image_without_accounts_runs_as_root_of_its_namespace(image: Path, became: list[tuple[str, Any]]) -> None:
    (image / "passwd").unlink()
    (image / "group").unlink()
    become_user(spec(""))
    assert became == [("setgroups", [0]), ("setgid", 0), ("setuid", 0)]


@pytest.mark.parametrize("how", ["confined", "user_namespace"])
def test_a_user_of_the_machine_is_not_looked_up_in_the_image(
    image: Path, became: list[tuple[str, Any]], how: str
) -> None:
    become_user(spec("ada", user=7, group=8, groups=[8], **{how: True}))
    assert became == [("setgroups", [8]), ("setgid", 8), ("setuid", 7)]


def test_only_the_kept_capabilities_stay_in_the_bounding_set(became: list[tuple[str, Any]]) -> None:
    become_user({"capabilities": [5, 21]})
    assert [number for what, number in became if what == "drop"] == [n for n in range(41) if n not in (5, 21)]
    became.clear()
    become_user({"capabilities": []})
    assert len(became) == 41, "an empty list keeps none"


def test_the_home_of_a_user_is_in_the_image(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for uid in (1000, 1002, 4711):
        monkeypatch.setattr(os, "getuid", lambda uid=uid: uid)
        found.append(home())
    assert found == ["/home/ada", "/", "/"]


def test_a_huge_account_file_is_read_in_part(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "_ACCOUNTS_BYTES", 40)
    assert [row[0] for row in privileges._accounts("/etc/passwd", 7)] == ["root"]


def test_account_files_of_odd_bytes_are_read(image: Path) -> None:
    (image / "passwd").write_bytes(b"\xff\xfe:x:5:6::/:/bin/sh\n" + PASSWD.encode())
    assert len(privileges._accounts("/etc/passwd", 7)) == 5


def test_a_program_that_is_not_confined_opens_files_as_the_agent() -> None:
    groups = os.getgroups()
    with rights_of_user({"user": 7}):
        assert os.getgroups() == groups


@as_root
def test_files_of_a_confined_program_are_made_as_its_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "private").mkdir(mode=0o700)
    folder = os.open(tmp_path, os.O_PATH)  # the user may not enter the folders above

    def confined() -> str:
        said = {"confined": True, "user": 4711, "group": 4712, "groups": [4712]}
        before = os.getgroups()
        with rights_of_user(said):
            os.close(os.open("made", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
            try:
                os.open("private/x", os.O_CREAT | os.O_WRONLY, dir_fd=folder)
            except PermissionError:
                os.close(os.open("kept out", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        os.close(os.open("after", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        return str(os.getgroups() == before)

    assert in_child(confined) == "True"
    os.close(folder)
    made, after = (os.stat(tmp_path / name) for name in ("made", "after"))
    assert (made.st_uid, made.st_gid) == (4711, 4712)
    assert after.st_uid == os.geteuid()
    assert (tmp_path / "kept out").exists()
