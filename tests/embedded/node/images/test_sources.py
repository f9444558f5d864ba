"""Images imported from layouts, archives, folders, registries and Debian suites."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from phalanx.embedded.node.images.sources import build_debian, copy_tree, import_image
from phalanx.embedded.node.images.store import ImageStore
from phalanx.embedded.node.images.unpack import Allowance
from phalanx.errors import PhalanxError
from tests.embedded.node.images.roots import archive, layout, member
from tests.embedded.node.images.taken import CONFIG, LOWER, UPPER, packed, taken


def test_a_layout_and_an_archive_of_it_are_the_same_image(store: ImageStore, tmp_path: Path) -> None:
    made = layout(tmp_path / "layout", LOWER, UPPER, config=CONFIG)
    first = taken(store, made, "a")
    second = taken(store, packed(made, tmp_path / "x.tar.gz"), "b")
    assert (first.digest, first.layers) == (second.digest, second.layers)
    found = store.find("docker.io/library/a")
    assert found is not None
    assert (found.entrypoint, found.command, found.cwd, found.user) == (("/app",), ("--quick",), "/work", "app:video")
    assert found.env == {"A": "b=c", "PATH": "/bin"}
    assert [Path(one).name for one in found.layers] == list(reversed(first.layers))
    assert (Path(found.layers[0]) / "etc/os-release").read_text() == "upper"


def test_the_layers_in_one_tree_are_what_a_container_would_see(store: ImageStore, tmp_path: Path) -> None:
    found = taken(store, layout(tmp_path / "layout", LOWER, UPPER))
    target = tmp_path / "tree"
    target.mkdir()
    for name in found.layers:
        layer = store.layer(name)
        assert layer is not None
        copy_tree(layer, target, Allowance())
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == ["etc", "etc/os-release", "only"]
    assert (target / "etc/os-release").read_text() == "upper"


def test_a_root_file_system_is_an_image_as_a_folder_and_as_an_archive(store: ImageStore, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/os-release").write_text("mine")
    (root / "etc/link").symlink_to("/etc/os-release")
    os.mkfifo(root / "pipe")
    (tmp_path / "root.tar").write_bytes(archive(root))
    for source in (root, tmp_path / "root.tar"):
        [layer] = taken(store, source).layers
        place = store.layer(layer)
        assert place is not None
        assert (place / "etc/os-release").read_text() == "mine"
        assert os.readlink(place / "etc/link") == "/etc/os-release"


@pytest.mark.parametrize("source", ["nothing/there", "."])
def test_a_source_that_is_none_is_refused(store: ImageStore, tmp_path: Path, source: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PhalanxError):
        taken(store, tmp_path / "empty" / source)


def test_a_program_that_is_missing_is_named(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PhalanxError, match="apt-get install skopeo"):
        taken(store, "docker://debian:12")
    with pytest.raises(PhalanxError, match="apt-get install debootstrap"):
        build_debian(store, "x", "trixie")


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_registry_is_asked_by_skopeo(store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's replacement of skopeo records its arguments, and writes an image as skopeo would."""
    made = layout(tmp_path / "layout", LOWER, tag="image")
    copy = f'printf "%s\\n" "$@" > {tmp_path}/told; cp -r {made}/. "${{3#oci:}}"'
    program(tmp_path / "bin", "skopeo", copy.replace("${3#oci:}", "$(echo $3 | cut -d: -f2)"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    taken(store, "docker://debian:13", "d")
    assert (tmp_path / "told").read_text().splitlines()[:2] == ["copy", "docker://docker.io/library/debian:13"]
    with pytest.raises(PhalanxError, match="not the name of an image"):
        taken(store, "docker://--help", "d")
    assert store.find("d") is not None


def test_debian_is_built_by_debootstrap(store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("debootstrap needs root")
    program(tmp_path / "bin", "debootstrap", 'mkdir -p "$4/etc" && echo $3 > "$4/etc/debian_version" && echo "$@" >&2')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    found = build_debian(store, "d", "trixie", "http://deb.debian.org/debian", ["python3"])
    layer = store.layer(found.layers[0])
    assert layer is not None
    assert (layer / "etc/debian_version").read_text() == "trixie\n"
    for wrong in ({"suite": "--help"}, {"mirror": "--x"}, {"include": ["-x"]}):
        with pytest.raises(PhalanxError, match="is no"):
            build_debian(store, "d", **{"suite": "trixie", **wrong})  # type: ignore[arg-type]  # what users write


def test_an_archive_of_zeros_costs_its_bound_and_no_more(store: ImageStore, tmp_path: Path) -> None:
    """A gigabyte in a megabyte of gzip."""
    with gzip.open(tmp_path / "bomb.tar.gz", "wb", compresslevel=1) as file:
        header = member("zeros")[0]
        header.size = 1 << 30
        file.write(header.tobuf())
        for _ in range(32):
            file.write(bytes(1 << 20))
    with pytest.raises(PhalanxError, match="--most-bytes"):
        import_image(store, "x", str(tmp_path / "bomb.tar.gz"), Allowance(bytes_left=8 << 20))
    assert store.find("x") is None
