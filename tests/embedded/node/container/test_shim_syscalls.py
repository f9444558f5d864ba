"""`shim/syscalls.py`: system calls that Python does not have, with error messages."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from phalanx.embedded.node.container.shim import syscalls
from phalanx.embedded.node.container.shim.syscalls import (
    AT_FDCWD,
    BENEATH,
    IN_ROOT,
    NO_MAGICLINKS,
    NO_SYMLINKS,
    SyscallRefused,
    call,
    make_resolved,
    open_resolved,
    step,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root's capabilities")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """A handle on a folder with a file, a folder, and links that lead within and out of it."""
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "sub/file").write_text("in")
    (tmp_path / "secret").write_text("out")
    (inside / "within").symlink_to("sub/file")
    (inside / "out").symlink_to("../secret")
    (inside / "absolute").symlink_to(tmp_path / "secret")
    handle = os.open(inside, os.O_PATH)
    yield handle
    os.close(handle)


def text_at(handle: int) -> str:
    try:
        return Path(f"/proc/self/fd/{handle}").read_text()
    finally:
        os.close(handle)


def refused(number: int, folder: int, path: str, resolve: int) -> None:
    with pytest.raises(OSError, match=os.strerror(number)) as raised:
        open_resolved(folder, path, resolve)
    assert raised.value.errno == number
    assert raised.value.filename == path


def in_child(do: Callable[[], str]) -> str:
    """Return the text of `do`, which runs in a process of its own."""
    told, tell = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(tell, do().encode())
        except BaseException as error:  # reported as the text, as a fork must not return to pytest
            os.write(tell, repr(error).encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(told) as file:
        found = file.read()
    os.waitpid(child, 0)
    return found


# --- paths ------------------------------------------------------------------------------------------------------------


def test_beneath_a_folder_links_lead_within_it_only(folder: int) -> None:
    assert text_at(open_resolved(folder, "within", BENEATH)) == "in"
    for path in ("out", "absolute", "../secret", "sub/../../secret"):
        refused(errno.EXDEV, folder, path, BENEATH)


def test_a_folder_as_root_keeps_links_inside(folder: int) -> None:
    """As after chroot(2): `..` of the root is the root, so the file outside is not found."""
    for path in ("out", "absolute", "../../secret"):
        refused(errno.ENOENT, folder, path, IN_ROOT)
    assert text_at(open_resolved(folder, "/sub/file", IN_ROOT)) == "in"


def test_without_symbolic_links_no_link_is_followed(folder: int) -> None:
    refused(errno.ELOOP, folder, "within", NO_SYMLINKS)
    assert text_at(open_resolved(folder, "sub/file", NO_SYMLINKS)) == "in"


def test_links_of_proc_lend_no_path(folder: int) -> None:
    refused(errno.ELOOP, AT_FDCWD, "/proc/self/root/etc", NO_MAGICLINKS)
    handle = open_resolved(AT_FDCWD, "/proc/self/root/etc", 0)
    assert os.path.samestat(os.fstat(handle), os.stat("/etc"))
    os.close(handle)


def test_a_handle_is_closed_in_programs(folder: int) -> None:
    handle = open_resolved(folder, "sub", BENEATH)
    assert not os.get_inheritable(handle)
    os.close(handle)


def test_missing_folders_are_made_beneath(folder: int, tmp_path: Path) -> None:
    os.close(make_resolved(folder, "/sub/a/b/", BENEATH))
    assert (tmp_path / "inside/sub/a/b").is_dir()
    os.close(make_resolved(folder, "sub/c/token", BENEATH, file=True))
    made = tmp_path / "inside/sub/c/token"
    assert made.is_file()
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o755 & ~_umask()


def test_what_is_there_is_opened_and_not_made_anew(folder: int, tmp_path: Path) -> None:
    assert text_at(make_resolved(folder, "sub/file", BENEATH, file=True)) == "in"
    handle = make_resolved(folder, "", BENEATH)
    assert os.path.samestat(os.fstat(handle), (tmp_path / "inside").stat())
    os.close(handle)


@pytest.mark.parametrize("path", ["out/x", "absolute/x", "../x", "sub/../../x"])
def test_nothing_is_made_outside(folder: int, tmp_path: Path, path: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OSError, match=r"Invalid cross-device link"):
        make_resolved(folder, path, BENEATH)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_that_leads_nowhere_is_not_replaced(folder: int, tmp_path: Path) -> None:
    (tmp_path / "inside/dangling").symlink_to("sub/later")
    with pytest.raises(FileExistsError):
        make_resolved(folder, "dangling", BENEATH)
    assert not (tmp_path / "inside/sub/later").exists()


def test_no_handle_is_left_open(folder: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    os.close(make_resolved(folder, "x/y/z", BENEATH))
    with pytest.raises(OSError, match="link"):
        make_resolved(folder, "../x/y", BENEATH)
    assert len(os.listdir("/proc/self/fd")) == before


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_failed_call_names_the_action_and_the_reason() -> None:
    assert call("opening", 7) == 7
    ctypes.set_errno(errno.EPERM)
    with pytest.raises(SyscallRefused, match=r"^mounting /x: Operation not permitted$"):
        call("mounting /x", -1)


def test_a_step_turns_an_os_error_into_a_refusal(tmp_path: Path) -> None:
    assert step("reading", lambda: "text") == "text"
    with pytest.raises(SyscallRefused, match=r"^making the folder: No such file or directory$"):
        step("making the folder", lambda: (tmp_path / "a/b").mkdir())
    with pytest.raises(ZeroDivisionError):
        step("a defect", lambda: 1 // 0)


def test_a_refused_mount_names_its_target() -> None:
    with pytest.raises(SyscallRefused, match=r"^mounting it: "):
        syscalls.mount("mounting it", "none", "/no/such/folder", "no-such-kind", 0)


def test_pivot_root_needs_a_known_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    known = os.uname()
    strange = os.uname_result((known.sysname, known.nodename, known.release, known.version, "pdp11"))
    monkeypatch.setattr(os, "uname", lambda: strange)
    with pytest.raises(SyscallRefused, match="not known for the architecture pdp11"):
        syscalls.pivot_root_to_here()


# --- capabilities -----------------------------------------------------------------------------------------------------


def capability_sets() -> dict[str, int]:
    rows = (row.split(":") for row in Path("/proc/self/status").read_text().splitlines())
    return {name: int(value, 16) for name, value in rows if name in ("CapInh", "CapPrm", "CapEff")}


@as_root
def test_all_capabilities_but_the_kept_ones_are_dropped_for_good() -> None:
    def limited() -> str:
        syscalls.limit_capabilities([5, 21])
        return str(capability_sets())

    wanted = 1 << 5 | 1 << 21
    had = capability_sets()["CapPrm"]
    assert in_child(limited) == str({"CapInh": 0, "CapPrm": wanted & had, "CapEff": wanted & had})
    assert capability_sets()["CapPrm"] == had, "only the child has lost them"


@as_root
def test_capabilities_put_aside_come_back() -> None:
    def aside() -> str:
        before = capability_sets()
        with syscalls.without_capabilities():
            inside = capability_sets()
        return str((inside["CapEff"], inside["CapPrm"] == before["CapPrm"], capability_sets() == before))

    assert in_child(aside) == str((0, True, True))


@as_root
def test_capabilities_come_back_after_an_error() -> None:
    def failing() -> str:
        before = capability_sets()
        try:
            with syscalls.without_capabilities():
                raise KeyError
        except KeyError:
            return str(capability_sets() == before)

    assert in_child(failing) == "True"
