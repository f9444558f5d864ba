"""Files in which a complaint names its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.files.placed_file import read_placed
from phalanx.dialects.schema.fields import Fields
from phalanx.errors import PhalanxError


def complaint(tmp_path: Path, text: str | bytes) -> str:
    file = tmp_path / "f.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)

    def read(said: Fields) -> list[str]:
        names = [each.name("name") for each in said.each("items")]
        said.done()
        return names

    try:
        return str(read_placed(file, read))
    except PhalanxError as error:
        return str(error).removeprefix(f"{file}:")


def test_what_is_right_is_read(tmp_path: Path) -> None:
    assert complaint(tmp_path, "items:\n- &a {name: x}\n- *a\n- <<: *a\n  name: y\n") == "['x', 'x', 'y']"
    assert complaint(tmp_path, '{"items": [{"name": "j"}]}') == "['j']"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("items:\n- name: x\n- {}\n", "3: items[1].name"),
        ("items:\n- name: x\n\nmore: 1\n", "4: more"),
        ("items: x\n", "1: items"),
        ("a: 1\n\nitems: []\na: 2\n", "4: a is stated twice"),
        ("items:\n- {name: x, name: y}\n", "2: name is stated twice"),
        ("", " the file is empty"),
        ("items: [\n", " this is not YAML: while parsing"),
        (b"\xff\xfe\x00", " this is not YAML: "),
        ("[" * 2000, " this is not YAML: "),
        ("- a\n", "1: "),
    ],
)
def test_what_is_wrong_has_a_line(tmp_path: Path, text: str | bytes, told: str) -> None:
    assert complaint(tmp_path, text).startswith(told)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"none\.yaml: No such file or directory"):
        read_placed(tmp_path / "none.yaml", lambda said: said)


def test_an_alias_of_itself_is_no_endless_loop(tmp_path: Path) -> None:
    assert complaint(tmp_path, "items: &a [*a]\n").startswith("1: items[0]")
