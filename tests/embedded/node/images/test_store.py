"""Images taken in from all that they come as, and taken away again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from phalanx.embedded.node.container.attempt import Attempt, Root, RunSpec
from phalanx.embedded.node.images.store import ImageStore, normalized
from phalanx.errors import PhalanxError
from tests.embedded.node.images.roots import layout
from tests.embedded.node.images.taken import LOWER, UPPER, taken


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
    with pytest.raises(PhalanxError, match="not the name of an image"):
        normalized(name)


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
