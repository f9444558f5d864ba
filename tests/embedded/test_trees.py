"""Trees of files that users left: removed whole, and nothing else is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from phalanx.embedded.trees import remove_tree


def deep(place: Path, depth: int) -> None:
    """Folders in each other, deeper than a path can say, each with a file and a link."""
    before = os.open(".", os.O_RDONLY)
    place.mkdir()
    os.chdir(place)
    try:
        for _ in range(depth):
            Path("file").touch()
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.fchdir(before)
        os.close(before)


@pytest.mark.slow
def test_folders_as_deep_as_they_like(tmp_path: Path) -> None:
    deep(tmp_path / "tree", 1500)
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_links_lead_nowhere_and_odd_names_are_names(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch(mode=0o640)
    tree = tmp_path / "tree"
    for inner in (tree, tree / "a" / ".removed-0", tree / ".removed-1" / "x", tree / "work" / "work"):
        inner.mkdir(parents=True, exist_ok=True)
        (inner / "link").symlink_to(outside)
        os.link(outside / "file", inner / "hard")
        (inner / "dangling").symlink_to("nowhere")
        os.mkfifo(inner / "pipe")
        os.close(os.open(os.fsencode(inner) + b"/\xff\n", os.O_CREAT))
    remove_tree(tree)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").stat().st_mode & 0o777 == 0o640


def test_what_is_no_folder_and_what_is_not_there(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "file").touch()
    for name in ("link", "file", "nothing"):
        remove_tree(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is made of root")
def test_folders_without_rights_are_removed_by_their_owner(tmp_path: Path) -> None:
    """Overlayfs leaves one behind, and so does a test that forgot to give itself rights."""
    place = Path("/dev/shm") / f"trees-{os.getpid()}"
    place.mkdir(mode=0o777)
    try:
        for name in ("tree/a/b/c", "tree/d/e"):
            (place / name).mkdir(parents=True)
            (place / name / "file").touch()
        for path in sorted(place.rglob("*"), reverse=True):
            os.chown(path, 51234, 51234)
            path.chmod(0)
        os.chown(place, 51234, 51234)
        if (child := os.fork()) == 0:
            os.setgroups([])
            os.setgid(51234)
            os.setuid(51234)
            remove_tree(place / "tree")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert list(place.iterdir()) == []
    finally:
        remove_tree(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's to make")
def test_what_cannot_be_removed_stays_and_ends_nothing(tmp_path: Path) -> None:
    mounted = tmp_path / "tree" / "a" / "mounted"
    mounted.mkdir(parents=True)
    (tmp_path / "tree" / "b" / "c").mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (mounted / "file").touch()
        remove_tree(tmp_path / "tree")
        assert (mounted / "file").exists()
        assert not (tmp_path / "tree" / "b").exists()
    finally:
        subprocess.run(["umount", "-l", mounted], check=True)
    remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []
