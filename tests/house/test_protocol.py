"""Each of the twenty points of the protocol, and each further duty, has tests (docs/guide/protocol.md)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "protocol.md").read_text()
NAMED = re.compile(r"[Pp]oints? (\d+(?:(?:, | and )\d+)*)")
ROW = re.compile(r"^\| (\d+) [^|]+\|([^|]+)\|", re.MULTILINE)
POINTS = list(range(1, 21))


def test_each_point_is_named_by_a_test() -> None:
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = {int(number) for text in texts for found in NAMED.findall(text) for number in re.findall(r"\d+", found)}
    assert set(POINTS) - named == set(), "say in a test's docstring which point of the protocol it holds"


def test_each_point_has_its_row_and_the_tests_in_it_exist() -> None:
    rows = ROW.findall(PAGE)
    assert [int(number) for number, _ in rows] == POINTS
    for number, tests in rows:
        for name in re.findall(r"`([\w./]+)`", tests):
            places = [
                ROOT / name,
                *(ROOT / folder / f"{name}{end}" for folder in ("tests", "tests/kube", ".") for end in ("", ".py")),
            ]
            assert any(place.exists() for place in places), f"point {number}: there is no {name}"


def test_the_tests_of_what_else_is_owed_exist() -> None:
    named = re.findall(r"`([\w/]+)::(\w+)`", PAGE)
    assert len(named) > 20
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests" / f"{file}.py").read_text(), f"{file}.py has no {test}"
