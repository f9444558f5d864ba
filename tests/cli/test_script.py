"""Scripts with their options in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.submission.script import is_script, script_line
from phalanx.errors import PhalanxError

FLAGS = frozenset({"--hold"})


def line(tmp_path: Path, text: str, *before: str, args: tuple[str, ...] = (), mode: int = 0o755) -> list[str]:
    file = tmp_path / "job.sh"
    file.write_text(text)
    file.chmod(mode)
    return [word.replace(str(tmp_path), "") for word in script_line(before, str(file), args, FLAGS)]


def test_options_of_the_script_come_before_the_command(tmp_path: Path) -> None:
    text = "#!/bin/sh\n# a comment\n#PHALANX --pods 4 --hold  # so\n\n#PHALANX --name='a b'\nrun\n#PHALANX --pods 5\n"
    assert line(tmp_path, text, args=("x",)) == ["--pods", "4", "--hold", "--name=a b", "--", "/job.sh", "x"]


def test_a_tab_may_follow_the_mark(tmp_path: Path) -> None:
    assert line(tmp_path, "#!/bin/sh\n#PHALANX\t--pods 4\n") == ["--pods", "4", "--", "/job.sh"]


def test_words_that_only_begin_like_the_mark_are_comments(tmp_path: Path) -> None:
    assert line(tmp_path, "#!/bin/sh\n#PHALANXES --pods 4\n# PHALANX --pods 4\n") == ["--", "/job.sh"]


def test_the_command_line_counts_before_the_script_also_in_its_short_form(tmp_path: Path) -> None:
    text = "#!/bin/sh\n#PHALANX --pods 4 --env A=1 -q lab\n"
    found = line(tmp_path, text, "-p", "2", "--env", "B=2", "--queue=chem")
    assert found == ["--env", "A=1", "-p", "2", "--env", "B=2", "--queue=chem", "--", "/job.sh"]


def test_a_script_that_may_not_be_executed_is_given_to_its_interpreter(tmp_path: Path) -> None:
    assert line(tmp_path, "#!/usr/bin/env -S python3 -u\n", mode=0o644) == [
        *("--", "/usr/bin/env", "-S python3 -u", "/job.sh"),
    ]
    assert line(tmp_path, "#!\n", mode=0o644) == ["--", "/bin/sh", "/job.sh"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh\n#PHALANX pods 4\n", "job.sh:2: 'pods' is not an option"),
        ("#!/bin/sh\n\n#PHALANX --name 'a\n", "job.sh:3: No closing quotation"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(PhalanxError) as raised:
        line(tmp_path, text)
    assert why in str(raised.value)
    assert "Nothing was created" in str(raised.value)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"cannot read .*: No such file"):
        script_line([], str(tmp_path / "none"), [], FLAGS)
    (tmp_path / "binary").write_bytes(b"#!\xff")
    with pytest.raises(PhalanxError, match="cannot read"):
        script_line([], str(tmp_path / "binary"), [], FLAGS)


def test_a_script_begins_with_its_interpreter(tmp_path: Path) -> None:
    for name, text in (("yes", "#!/bin/sh"), ("no", "echo"), ("empty", "")):
        (tmp_path / name).write_text(text)
    found = [is_script(str(tmp_path / name)) for name in ("yes", "no", "empty", "none", ".", "a\0b")]
    assert found == [True, False, False, False, False, False]
