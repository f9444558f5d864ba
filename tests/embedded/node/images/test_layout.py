"""Images in layouts of OCI and of docker save: which one is read, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from phalanx.embedded.node.images.store import ImageStore
from phalanx.errors import PhalanxError
from tests.embedded.node.images.roots import layout
from tests.embedded.node.images.taken import CONFIG, LOWER, UPPER, packed, taken


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
