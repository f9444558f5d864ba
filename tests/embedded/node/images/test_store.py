"""Images taken in from all that they come as, and taken away again."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from pathlib import Path

import msgspec
import pytest

from phalanx.embedded.node.container.attempt import Attempt, Root, RunSpec
from phalanx.embedded.node.images.sources import build_debian, copy_tree, import_image
from phalanx.embedded.node.images.store import ImageStore, StoredImage, normalized
from phalanx.embedded.node.images.unpack import Allowance
from phalanx.errors import PhalanxError
from tests.embedded.node.images.roots import archive, layout, member


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "data")


def taken(store: ImageStore, source: Path | str, name: str = "x") -> StoredImage:
    return import_image(store, name, str(source), Allowance())


def packed(folder: Path, place: Path) -> Path:
    with tarfile.open(place, "w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, path.relative_to(folder))
    return place


LOWER = archive(member("etc/os-release", b"lower"), member("etc/gone", b"x"), member("only/lower", b"x"))
UPPER = archive(member("etc/os-release", b"upper"), member("etc/.wh.gone"), member("only/.wh..wh..opq"))
CONFIG = {
    "Entrypoint": ["/app"],
    "Cmd": ["--quick"],
    "Env": ["A=b=c", "PATH=/bin"],
    "WorkingDir": "/work",
    "User": "app:video",
}


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("debian", "docker.io/library/debian:latest"),
        ("debian:12", "docker.io/library/debian:12"),
        ("team/train:1.4", "docker.io/team/train:1.4"),
        ("docker.io/debian:12", "docker.io/library/debian:12"),
        ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
        ("reg.example.org/a@sha256:" + "0" * 64, "reg.example.org/a@sha256:" + "0" * 64),
    ],
)
def test_names_mean_what_they_do_to_registries(name: str, full: str) -> None:
    assert normalized(name) == full == normalized(full)


@pytest.mark.parametrize("name", ["", "-x", "a b", "../x", "a/../b", "$(id)", "a;b", "x" * 300, "a/b:", "/abs"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(PhalanxError, match="no name of an image"):
        normalized(name)


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


def test_what_docker_saves_is_an_image(store: ImageStore, tmp_path: Path) -> None:
    made = layout(tmp_path / "layout", LOWER, config=CONFIG)
    index = json.loads((made / "index.json").read_text())
    manifest = json.loads((made / "blobs/sha256" / index["manifests"][0]["digest"][7:]).read_text())
    config, layers = manifest["config"]["digest"][7:], [one["digest"][7:] for one in manifest["layers"]]
    saved = tmp_path / "saved"
    saved.mkdir()
    for name in (config, *layers):
        (saved / name).write_bytes((made / "blobs/sha256" / name).read_bytes())
    (saved / config).rename(saved / f"{config}.json")
    entry = {"Config": f"{config}.json", "Layers": layers, "RepoTags": ["team/x:1"]}
    (saved / "manifest.json").write_text(json.dumps([entry]))
    assert taken(store, packed(saved, tmp_path / "x.tar")).digest == f"sha256:{config}"


def test_of_several_images_the_tag_tells(store: ImageStore, tmp_path: Path) -> None:
    one, two = layout(tmp_path / "one", LOWER, tag="1"), layout(tmp_path / "two", UPPER, tag="2")
    both = [json.loads((path / "index.json").read_text())["manifests"][0] for path in (one, two)]
    (one / "index.json").write_text(json.dumps({"manifests": both}))
    for blob in (two / "blobs/sha256").iterdir():
        (one / "blobs/sha256" / blob.name).write_bytes(blob.read_bytes())
    with pytest.raises(PhalanxError, match=r"has 2 images for this machine \(1, 2\)"):
        taken(store, one)
    assert taken(store, f"{one}:2").layers != taken(store, f"{one}:1").layers


def test_a_damaged_blob_is_refused_and_nothing_is_left(store: ImageStore, tmp_path: Path) -> None:
    made = layout(tmp_path / "layout", LOWER)
    largest = max((made / "blobs/sha256").iterdir(), key=lambda path: path.read_bytes()[:2] == b"\x1f\x8b")
    largest.write_bytes(gzip.compress(UPPER))
    with pytest.raises(PhalanxError, match="is damaged: its SHA-256 is"):
        taken(store, made)
    assert store.find("x") is None
    assert list((tmp_path / "data/images/layers").iterdir()) == []


def test_a_layer_that_is_a_link_leads_nowhere(store: ImageStore, tmp_path: Path) -> None:
    made = layout(tmp_path / "layout", LOWER)
    for blob in (made / "blobs/sha256").iterdir():
        if blob.read_bytes()[:2] == b"\x1f\x8b":
            outside = tmp_path / "outside"
            blob.rename(outside)
            blob.symlink_to(outside)
    with pytest.raises(PhalanxError, match="No such file"):
        taken(store, made)


@pytest.mark.parametrize("said", ["not json", "{}", '{"manifests": []}', '{"manifests": [{"digest": "sha256:../x"}]}'])
def test_a_layout_that_makes_no_sense_is_refused(store: ImageStore, tmp_path: Path, said: str) -> None:
    made = layout(tmp_path / "layout", LOWER)
    (made / "index.json").write_text(said)
    with pytest.raises(PhalanxError):
        taken(store, made)


def test_an_image_for_other_machines_is_refused(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="is for vax machines"):
        taken(store, layout(tmp_path / "layout", LOWER, architecture="vax"))


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
    with pytest.raises(PhalanxError, match="no name of an image"):
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


def test_layers_are_there_once_and_go_with_the_last_that_needs_them(store: ImageStore, tmp_path: Path) -> None:
    taken(store, layout(tmp_path / "one", LOWER), "a")
    both = taken(store, layout(tmp_path / "two", LOWER, UPPER), "b")
    layers = tmp_path / "data/images/layers"
    assert len(list(layers.iterdir())) == 2
    store.remove("b")
    assert store.sweep() == 1
    assert [path.name for path in layers.iterdir()] == [both.layers[0]]
    with pytest.raises(PhalanxError, match="there is no image b"):
        store.remove("b")


def test_a_layer_on_which_a_container_runs_stays(store: ImageStore, tmp_path: Path) -> None:
    found = taken(store, layout(tmp_path / "one", LOWER))
    attempt = Attempt(tmp_path / "data/pods/uid/main", 0)
    attempt.folder.mkdir(parents=True)
    layers = tuple(str(store.layer(one)) for one in found.layers)
    spec = RunSpec(argv=("x",), env={}, root=Root(stage="/s", layers=layers))
    attempt.path("spec.json").write_bytes(msgspec.json.encode(spec))
    store.remove("x")
    assert store.sweep() == 0
    attempt.path("exit.json").write_text('{"exit_code": 0, "signal": 0, "finished_s": 1, "reason": "", "message": ""}')
    assert store.sweep() == 1


def test_what_a_killed_import_left_is_swept_but_not_while_one_goes_on(
    store: ImageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.embedded.node.images.store._PATIENCE_S", 0.0)
    (tmp_path / "data/images/layers/.new-1").mkdir(parents=True)
    with store.in_use():
        assert store.sweep() is None
    assert store.sweep() == 0
    assert list((tmp_path / "data/images/layers").iterdir()) == []


def test_images_are_their_owners_alone(store: ImageStore, tmp_path: Path) -> None:
    taken(store, layout(tmp_path / "one", LOWER))
    assert (tmp_path / "data/images").stat().st_mode & 0o077 == 0


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
