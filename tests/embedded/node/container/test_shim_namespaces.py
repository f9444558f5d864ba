"""`shim/namespaces.py`: the mounts of a program, and the kinds of namespaces that it gets."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.container.shim import namespaces
from phalanx.embedded.node.container.shim.namespaces import (
    PASSED_ON,
    enter_user_namespace,
    has_own_processes,
    isolate,
    join_processes,
)
from phalanx.embedded.node.container.shim.record import ShimSpec, start_ticks
from phalanx.embedded.node.container.shim.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    SyscallRefused,
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The calls that change the namespaces of this process. None is carried out."""
    found: list[tuple[Any, ...]] = []

    def note(name: str) -> Callable[..., int]:
        def call(*about: Any) -> int:
            found.append((name, *about))
            return 0

        return call

    monkeypatch.setattr(
        namespaces, "libc", SimpleNamespace(**{name: note(name) for name in ("unshare", "setns", "sethostname")})
    )
    monkeypatch.setattr(namespaces, "mount", lambda what, source, target, *more: found.append(("mount", target)))
    monkeypatch.setattr(namespaces, "write_text", note("write"))
    return found


def mounted(source: Path, target: str, *, read_only: bool = False, **more: Any) -> dict[str, Any]:
    return {"source": str(source), "target": target, "read_only": read_only, **more}


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_a_plain_program_shares_all_namespaces_of_the_machine(calls: list[tuple[Any, ...]]) -> None:
    assert not has_own_processes({})
    isolate({"mounts": []})
    assert calls == []


def test_a_name_and_mounts_get_a_namespace_each(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    isolate({"mounts": [], "host_name": "pod"})
    assert calls == [("unshare", CLONE_NEWUTS), ("sethostname", b"pod", 3)]
    calls.clear()
    isolate({"mounts": [mounted(tmp_path, str(tmp_path / "at"))]})
    assert calls == [("unshare", CLONE_NEWNS), ("mount", "/"), ("mount", str(tmp_path / "at"))]


def test_a_confined_program_has_its_own_processes_and_ipc(
    calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert has_own_processes({"confined": True})
    assert has_own_processes({"root": {"user": ""}})
    monkeypatch.setattr(namespaces, "_mount_for_user", lambda source, one, spec, account: os.close(source))
    spec = ShimSpec(mounts=[mounted(tmp_path, "/x")], confined=True)
    isolate({**spec, "user": os.getuid(), "group": os.getgid(), "groups": os.getgroups()})
    assert calls[0] == ("unshare", CLONE_NEWNS | CLONE_NEWIPC)
    assert [one[1] for one in calls[1:]] == ["/", "/dev/shm", "/proc"]


def test_without_root_a_user_namespace_keeps_the_identity(calls: list[tuple[Any, ...]]) -> None:
    isolate({"mounts": [], "host_name": "pod", "user_namespace": True})
    user, group = os.geteuid(), os.getegid()
    assert calls[:5] == [
        ("unshare", CLONE_NEWUSER),
        ("write", "/proc/self/setgroups", "deny"),  # before the groups are mapped (user_namespaces(7))
        ("write", "/proc/self/uid_map", f"{user} {user} 1"),
        ("write", "/proc/self/gid_map", f"{group} {group} 1"),
        ("unshare", CLONE_NEWUTS),
    ]


def test_a_user_namespace_gives_the_program_its_numbers(calls: list[tuple[Any, ...]]) -> None:
    enter_user_namespace(7, 8)
    assert calls[2:] == [
        ("write", "/proc/self/uid_map", f"7 {os.geteuid()} 1"),
        ("write", "/proc/self/gid_map", f"8 {os.getegid()} 1"),
    ]


def test_a_refused_namespace_names_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, text: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(namespaces, "libc", SimpleNamespace(unshare=lambda flags: 0))
    monkeypatch.setattr(namespaces, "write_text", refuse)
    with pytest.raises(SyscallRefused, match=r"^giving up groups: Operation not permitted$"):
        enter_user_namespace(0, 0)


def test_the_processes_of_a_container_are_joined_only_if_it_still_runs(calls: list[tuple[Any, ...]]) -> None:
    me = os.getpid()
    join_processes(me, start_ticks(me), user_namespace=True)
    assert [one[0] for one in calls] == ["setns", "setns"]
    calls.clear()
    with pytest.raises(SyscallRefused, match="the target container has ended"):
        join_processes(me, start_ticks(me) + 1, user_namespace=False)
    with pytest.raises(SyscallRefused, match="entering the target container: No such file or directory"):
        join_processes(2**22 + 1, 0, user_namespace=False)
    assert calls == []


def test_signals_of_batch_jobs_are_passed_on_and_the_shims_own_are_not() -> None:
    assert {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2} < PASSED_ON
    assert not PASSED_ON & {signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP}


# --- sources and mount points -----------------------------------------------------------------------------------------


def opened(one: dict[str, Any], **spec: Any) -> os.stat_result:
    handle = namespaces._opened(one, spec)
    found = os.fstat(handle)
    os.close(handle)
    return found


def test_all_sources_are_opened_before_a_mount_may_hide_one(
    calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opening = namespaces._opened
    monkeypatch.setattr(
        namespaces, "_opened", lambda one, spec: (calls.append(("open", one["source"])), opening(one, spec))[1]
    )
    (tmp_path / "in").mkdir()
    isolate({"mounts": [mounted(tmp_path, str(tmp_path)), mounted(tmp_path / "in", str(tmp_path / "at"))]})
    assert [one[0] for one in calls] == ["unshare", "mount", "open", "open", "mount", "mount"]


def test_a_read_only_mount_is_mounted_again_to_be_so(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    target = str(tmp_path / "at")
    isolate({"mounts": [mounted(tmp_path, target, read_only=True)]})
    assert [one[1] for one in calls if one[0] == "mount"] == ["/", target, target]


def test_the_mount_point_of_a_file_is_a_file(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    isolate({"mounts": [mounted(tmp_path / "file", str(tmp_path / "a/b")), mounted(tmp_path, str(tmp_path / "c/d"))]})
    assert (tmp_path / "a/b").read_text() == ""
    assert (tmp_path / "c/d").is_dir()


def test_an_existing_mount_point_stays_as_it_is(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    for name in ("source", "target"):
        (tmp_path / name).write_text(name)
    isolate({"mounts": [mounted(tmp_path / "source", str(tmp_path / "target"))]})
    assert (tmp_path / "target").read_text() == "target"


def test_a_source_that_is_not_there_is_named(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    with pytest.raises(SyscallRefused, match=r"^opening .*/gone: No such file or directory$"):
        isolate({"mounts": [mounted(tmp_path / "gone", "/x")]})


def test_a_sub_path_is_made_below_its_volume(tmp_path: Path) -> None:
    found = opened(mounted(tmp_path, "/x", below="a/b"))
    assert os.path.samestat(found, (tmp_path / "a/b").stat())
    assert stat.S_ISDIR(found.st_mode)
    assert os.path.samestat(opened(mounted(tmp_path, "/x", below="a/b")), found), "it is made once"


OWN = {"confined": True, "user": os.getuid(), "group": os.getgid(), "groups": os.getgroups()}


def test_a_confined_sub_path_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume/out").symlink_to(tmp_path)
    assert os.path.samestat(
        opened(mounted(tmp_path / "volume", "/x", below="in"), **OWN), (tmp_path / "volume/in").stat()
    )
    with pytest.raises(SyscallRefused, match=r"opening out/secret in .*: a link leads out of the volume"):
        opened(mounted(tmp_path / "volume", "/x", below="out/secret"), **OWN)
    assert not (tmp_path / "secret").exists()


def test_a_confined_source_follows_links_of_its_user_only_if_allowed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert os.path.samestat(opened(mounted(tmp_path / "link", "/x"), **OWN), (tmp_path / "real").stat())
    with pytest.raises(SyscallRefused, match="a symbolic link in it leads out of it"):
        opened(mounted(tmp_path / "link", "/x", no_links=True), **OWN)
    with pytest.raises(SyscallRefused, match="it is a path of a process"):
        opened(mounted(Path("/proc/self/root"), "/x"), **OWN)


@pytest.mark.parametrize(
    ("kind", "fits"),
    [("Directory", True), ("File", False), ("Socket", False), ("CharDevice", False), ("BlockDevice", False),
     ("", True), ("DirectoryOrCreate", True)],
)  # fmt: skip
def test_the_type_of_a_host_path_is_checked(tmp_path: Path, kind: str, fits: bool) -> None:
    if fits:
        opened(mounted(tmp_path, "/x", kind=kind), **OWN)
        return
    with pytest.raises(SyscallRefused, match=rf"hostPath type check failed: .* is not a {kind}"):
        opened(mounted(tmp_path, "/x", kind=kind), **OWN)


def test_a_hidden_path_is_no_longer_the_open_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    handle = os.open(tmp_path / "a", os.O_PATH)
    assert namespaces._is_at(handle, str(tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "b")
    assert not namespaces._is_at(handle, str(tmp_path / "a"))
    (tmp_path / "a").mkdir()
    assert not namespaces._is_at(handle, str(tmp_path / "a"))
    os.close(handle)
