"""Device files that a group of version 2 may not open: by a real program of the kernel's, on a group made here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from phalanx.embedded.node.container.cgroup import CgroupLimits, Cgroups, Hierarchy, try_program, withhold

OPEN = """
import sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
for path in sys.argv[2:]:
    try:
        open(path, "rb").close()
    except OSError as error:
        print(path, error.strerror)
"""


@pytest.fixture
def unified(tmp_path: Path) -> Iterator[Path]:
    """A cgroup of version 2 of our own, in a mount of our own: one more view of the machine's one tree."""
    mount = tmp_path / "cgroup2"
    mount.mkdir()
    told = subprocess.run(["mount", "-t", "cgroup2", "none", str(mount)], capture_output=True, text=True, check=False)
    if told.returncode:
        pytest.skip(f"version 2 of cgroups cannot be mounted here: {told.stderr.strip()}")
    own = mount / f"phalanx-test-{os.getpid()}"
    try:
        own.mkdir()
        try_program(own)
        yield own
    except OSError as error:
        pytest.skip(f"no BPF program can be attached here: {error}")
    finally:
        for place in sorted(own.rglob("*"), reverse=True):
            if place.is_dir():
                place.rmdir()
        with suppress(OSError):
            own.rmdir()
        subprocess.run(["umount", str(mount)], check=True)


def refused(group: Path, *files: str) -> list[str]:
    """Return the files that a process in the group may not open, with the kernel's reason."""
    command = [sys.executable, "-c", OPEN, str(group), *files]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_withheld_files_cannot_be_opened_and_all_others_can(unified: Path) -> None:
    files = ("/dev/zero", "/dev/full", "/dev/null", "/dev/urandom")
    assert refused(unified, *files) == []
    withhold(unified, 2, ("/dev/full", "/dev/zero", "/etc/passwd", "/dev/not-there"))
    expected = [f"{path} Operation not permitted" for path in files[:2]]
    assert refused(unified, *files) == expected
    below = unified / "below"
    below.mkdir()
    assert refused(below, *files) == expected


def test_a_container_of_version_2_is_withheld_what_is_others(unified: Path) -> None:
    groups = Cgroups([Hierarchy(version=2, controllers=(), own=unified)], "node")
    assert (groups.usable, groups.devices_refusal) == ([], "no cgroup hierarchy for devices exists or can be written")
    controllers = tuple((unified.parent / "cgroup.controllers").read_text().split())
    if not controllers:
        pytest.skip("version 2 has no controller here, so it is not used")
    control = unified.parent / "cgroup.subtree_control"
    if controllers[0] not in control.read_text().split():
        control.write_text(f"+{controllers[0]}")
    groups = Cgroups([Hierarchy(version=2, controllers=controllers[:1], own=unified)], "node")
    assert (groups.devices_refusal, groups.enforced) == ("", {controllers[0], "devices"})
    first = groups.create("uid", "first-0", CgroupLimits(others_files=("/dev/full",)))
    second = groups.create("uid", "second-0", CgroupLimits(others_files=("/dev/zero",)))
    assert refused(Path(first.dirs[0]), "/dev/full", "/dev/zero") == ["/dev/full Operation not permitted"]
    assert refused(Path(second.dirs[0]), "/dev/full", "/dev/zero") == ["/dev/zero Operation not permitted"]
