"""`slurm/notation/hostlist.py`: host lists."""

from __future__ import annotations

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.notation import hostlist


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a[1-3,7],b02", ["a1", "a2", "a3", "a7", "b02"]),
        ("x[08-11]", ["x08", "x09", "x10", "x11"]),
        ("r[1-2]c[1-2]", ["r1c1", "r1c2", "r2c1", "r2c2"]),
        ("bad[1-", ["bad]"]),
        ("one", ["one"]),
        ("", []),
    ],
)
def test_host_lists_are_expanded(text: str, names: list[str]) -> None:
    assert hostlist.expand(text) == names


@pytest.mark.parametrize(
    ("names", "text", "ordered"),
    [
        (["a1", "a2", "a3", "b7"], "a[1-3],b7", False),
        (["a3", "a1", "a2", "a1"], "a[3,1-2,1]", False),
        (["a3", "a1", "a2", "b1"], "a[1-3],b1", True),
        (["n9", "n10", "n11"], "n[9-11]", True),
        (["n08", "n09", "n10"], "n[08-10]", True),
        (["login"], "login", True),
        ([], "", True),
    ],
)
def test_host_lists_are_written(names: list[str], text: str, ordered: bool) -> None:
    assert hostlist.compress(names, ordered=ordered) == text


@pytest.mark.parametrize("text", ["a[0-99999999999]", "a[0-999]b[0-999]", "a[1]" * 999, "a[0-65535],b"])
def test_host_lists_that_stand_for_too_many_are_refused(text: str) -> None:
    with pytest.raises(PhalanxError, match=r"a host list .*write fewer"):
        hostlist.expand(text)


@pytest.mark.parametrize("text", [f"a[{'9' * 5000}]", "a[\u00b2]"])
def test_numbers_that_are_none_stand_for_no_host(text: str) -> None:
    assert hostlist.expand(text) == []
