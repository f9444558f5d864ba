"""Limits by control groups: which hierarchy, which file, and that they bite."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.embedded.node.container import cgroup as cgroup
from phalanx.embedded.node.container.attempt import Attempt, Exited, RunSpec
from phalanx.embedded.node.container.cgroup import CgroupLimits, Cgroups, Hierarchy, hierarchies, settings

LIMITS = CgroupLimits(cpu_request_milli=500, cpu_limit_milli=1500, memory_limit_bytes=64 << 20, pids_limit=100)


def test_hybrid_machines_use_v1_where_its_controllers_are() -> None:
    mountinfo = (
        "31 24 0:27 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 24 0:28 /docker /cg/memory rw - cgroup cgroup rw,memory\n"
        "33 24 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n"
    )
    found = hierarchies(mountinfo, "4:memory:/docker/abc\n1:cpu,cpuacct:/user\n0::/\n")
    assert found == [
        Hierarchy(version=1, controllers=("cpu",), own=Path("/cg/cpu,cpuacct/user")),
        Hierarchy(version=1, controllers=("memory",), own=Path("/cg/memory/abc")),
        Hierarchy(version=2, controllers=(), own=Path("/cg/unified")),
    ]


def test_a_v2_machine_has_one_tree(tmp_path: Path) -> None:
    own = tmp_path / "user.slice"
    own.mkdir()
    (own / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    found = hierarchies(f"30 1 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n", "0::/user.slice\n")
    assert found == [Hierarchy(version=2, controllers=("cpu", "memory", "pids"), own=own)]


def test_controllers_besides_are_used_where_v2_offers_them(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma\n")
    found = hierarchies(f"30 1 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n", "0::/\n", besides=("cpuset", "hugetlb"))
    assert found == [Hierarchy(version=2, controllers=("cpu", "memory", "pids", "cpuset", "hugetlb"), own=tmp_path)]


@pytest.mark.parametrize(("version", "word"), [(1, "limit_in_bytes"), (2, "max")])
def test_huge_pages_are_limited_by_size_in_use_and_when_reserved(version: int, word: str) -> None:
    pages = Hierarchy(version=version, controllers=("hugetlb",), own=Path("/"))
    assert settings(pages, CgroupLimits(huge_pages_bytes={2 << 10: 4 << 20, 1 << 20: 0})) == {
        f"hugetlb.2MB.{word}": str(4 << 20),
        f"hugetlb.2MB.rsvd.{word}": str(4 << 20),
        f"hugetlb.1GB.{word}": "0",
        f"hugetlb.1GB.rsvd.{word}": "0",
    }


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            1,
            {
                "cpu.shares": "512",
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "150000",
                "memory.limit_in_bytes": "67108864",
                "pids.max": "100",
            },
        ),
        (
            2,
            {
                "cpu.weight": "20",
                "cpu.max": "150000 100000",
                "memory.max": "67108864",
                "memory.oom.group": "1",
                "pids.max": "100",
            },
        ),
    ],
)
def test_files_of_both_versions(version: int, expected: dict[str, str]) -> None:
    everything = Hierarchy(version=version, controllers=("cpu", "memory", "pids"), own=Path("/"))
    assert settings(everything, LIMITS) == expected


IN_A_V2_GROUP = """
import sys
from pathlib import Path
from phalanx.embedded.node.container import cgroup as cgroup
own, controller = Path(sys.argv[1]), sys.argv[2]
(own / "cgroup.procs").write_text("0")
groups = cgroup.Cgroups([cgroup.Hierarchy(version=2, controllers=(controller,), own=own)], "phalanx")
group = groups.create("uid", "main-0", cgroup.CgroupLimits())
print(len(groups.usable), (own / "phalanx/uid/main-0/cgroup.controllers").read_text().strip())
print(Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition("/")[2])
cgroup.remove((*group.dirs, str(own / "phalanx")))
"""


def test_a_v2_group_is_left_for_a_leaf_and_delegated_down() -> None:
    """With any controller that v2 has here: a group with children that limit may hold no process (cgroups(7))."""
    tree = next((place for place in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if _is_v2(place)), None)
    if tree is None or not os.access(tree, os.W_OK):
        pytest.skip("no cgroup v2 tree that may be written")
    controller = (tree / "cgroup.controllers").read_text().split()[0]
    own = tree / f"phalanx-test-{os.getpid()}"
    given_before = controller in (tree / "cgroup.subtree_control").read_text().split()
    try:
        (tree / "cgroup.subtree_control").write_text(f"+{controller}")
        own.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup v2 group can be made at the top here: {error}")
    command = [sys.executable, "-c", IN_A_V2_GROUP, str(own), controller]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    for place in (own / "phalanx-agent", own):
        place.rmdir()
    if not given_before:
        (tree / "cgroup.subtree_control").write_text(f"-{controller}")
    assert said.stdout == f"1 {controller}\nphalanx-agent\n", said.stderr


def _is_v2(place: Path) -> bool:
    return (place / "cgroup.controllers").exists() and bool((place / "cgroup.controllers").read_text().split())


def test_what_cannot_be_enforced_is_said(tmp_path: Path) -> None:
    absent = Hierarchy(version=1, controllers=("cpu",), own=tmp_path / "not" / "mounted")
    groups = Cgroups([absent], "phalanx")
    assert groups.enforced == frozenset()
    assert groups.problems == [
        f"cpu: {absent.own}: No such file or directory",
        "memory: no cgroup hierarchy offers it",
        "pids: no cgroup hierarchy offers it",
    ]
    assert groups.create("uid", "main-0", LIMITS) == cgroup.ControlGroup()


@pytest.fixture
def real() -> Iterator[Cgroups]:
    groups = Cgroups.of_this_process(f"phalanx-test-{os.getpid()}")
    yield groups
    cgroup.remove(tuple(str(one.own / f"phalanx-test-{os.getpid()}") for one in groups.usable))


def test_too_much_memory_is_an_oom_kill(real: Cgroups, tmp_path: Path) -> None:
    if "memory" not in real.enforced:
        pytest.skip(f"no memory cgroup can be made here: {real.problems}")
    group = real.create("uid", "main-0", LIMITS)
    attempt = Attempt(tmp_path / "main", 0)

    async def run() -> Exited:
        argv = (sys.executable, "-c", "bytearray(200 << 20)")
        await attempt.start(RunSpec(argv=argv, env={}, cgroup_procs=group.procs, oom_files=group.oom_files))
        await attempt.ended()
        state = attempt.settle()
        assert isinstance(state, Exited)
        return state

    state = asyncio.run(run())
    cgroup.remove(group.dirs)
    assert (state.exit_code, state.reason) == (137, "OOMKilled")
    assert not Path(group.dirs[0]).exists()


def test_the_cpu_quota_is_in_force(real: Cgroups) -> None:
    if "cpu" not in real.enforced:
        pytest.skip(f"no cpu cgroup can be made here: {real.problems}")
    group = real.create("uid", "main-0", CgroupLimits(cpu_limit_milli=250))
    texts = [path.read_text().split() for path in Path(group.dirs[0]).glob("cpu.[cm]*") if path.name in QUOTAS]
    cgroup.remove(group.dirs)
    assert texts in ([["25000"]], [["25000", "100000"]])


def test_cpu_is_shared_by_what_nodes_pods_and_containers_ask() -> None:
    groups = Cgroups.of_this_process(f"phalanx-test-{os.getpid()}", 6000)
    group = groups.create("uid", "main-0", CgroupLimits(cpu_request_milli=500), CgroupLimits(cpu_request_milli=2000))
    container = Path(group.dirs[0]) if group.dirs else Path()
    found = [read_share(place) for place in (container.parent.parent, container.parent, container)]
    cgroup.remove(group.dirs)
    groups.close()
    if "cpu" not in groups.enforced:
        pytest.skip(f"no cpu cgroup can be made here: {groups.problems}")
    assert found in ([6144, 2048, 512], [235, 79, 20])  # v1, v2


def read_share(place: Path) -> int:
    return next((int(file.read_text()) for file in (place / "cpu.shares", place / "cpu.weight") if file.exists()), 0)


QUOTAS = {"cpu.cfs_quota_us", "cpu.max"}


def test_a_pod_has_a_limit_for_all_its_containers_and_is_not_killed_whole(real: Cgroups) -> None:
    if "memory" not in real.enforced:
        pytest.skip(f"no memory cgroup can be made here: {real.problems}")
    group = real.create("uid", "debug-0", CgroupLimits(), CgroupLimits(memory_limit_bytes=64 << 20))
    places = [(Path(place), Path(place).parent) for place in group.dirs[::2]]
    names = ("memory.limit_in_bytes", "memory.max", "memory.oom.group")
    found = [{name: (place / name).read_text() for name in names if (place / name).exists()} for _, place in places]
    cgroup.remove(group.dirs)
    assert [one for one in found if one] in (
        [{"memory.limit_in_bytes": f"{64 << 20}\n"}],
        [{"memory.max": f"{64 << 20}\n", "memory.oom.group": "0\n"}],
    )
