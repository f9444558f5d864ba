"""Durations and counted nouns in printed texts."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from phalanx.cli.terminal.output import counted, duration, print_json, print_json_line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (130, "2m10s"), (3600, "1h"), (11100, "3h5m"), (90000, "1d1h"), (-5, "0s")],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_agree_with_their_nouns() -> None:
    assert (counted(1, "pod"), counted(2, "pod")) == ("1 pod", "2 pods")


def test_amounts_of_parts_of_gpus_are_numbers_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    for write in (print_json, print_json_line):
        write({"used": Fraction(1, 2), "limit": 2})
        assert json.loads(capsys.readouterr().out) == {"used": 0.5, "limit": 2}
        with pytest.raises(TypeError):
            write(object())
