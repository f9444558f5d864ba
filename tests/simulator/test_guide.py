"""The guide's example run is what the command prints, but for how fast it was.

`PHALANX_REWRITE=1 pytest tests/simulator/test_guide.py` writes it anew; read the difference."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from phalanx.cli.app import build

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "simulate.md"
BLOCK = re.compile(r"(<!-- run: (?P<words>.*) -->\n```text\n)(?P<text>.*?)(```\n)", re.DOTALL)


def without_speed(printed: str) -> str:
    """The last column is of the machine."""
    return "".join(re.sub(r"\s+\S+$", "", line) + "\n" for line in printed.splitlines())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_example_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = PAGE.read_text()
    block = BLOCK.search(page)
    assert block is not None
    words = block["words"].split()
    assert build(words[0])([*words, "--processes", "1"], exit_on_error=False, result_action="return_value") == 0
    now = without_speed(capsys.readouterr().out)
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(page.replace(block[0], f"{block[1]}{now}{block[4]}"))
    assert BLOCK.search(PAGE.read_text())["text"] == now


@pytest.mark.slow
def test_every_measure_that_is_printed_is_in_the_guide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = tmp_path / "work.yaml"
    work.write_text(
        "nodes: [{name: n, count: 2, allocatable: {cpu: 8}}]\n"
        "jobs:\n"
        "- {id: a, submit: 0, run: 50, deadline: 40, user: u, requests: {cpu: 8}}\n"
        "- {id: b, submit: 0, run: 50, user: v, requests: {cpu: 8}}\n"
    )
    build("simulate")(
        [
            str(each)
            for each in ("simulate", work, "--policy", "easy", "fair", "--seeds", 2, "--json", "--processes", 1)
        ],
        exit_on_error=False,
        result_action="return_value",
    )
    build("simulate")(
        [
            str(each)
            for each in (
                *("simulate", work, "--inflate", 1.3, "--json", "--processes", 1),
                *("--fair-starts", 3, "--compactions", 2),
            )
        ],
        exit_on_error=False,
        result_action="return_value",
    )
    page = PAGE.read_text()
    found = {name for line in capsys.readouterr().out.splitlines() for name in json.loads(line)}
    assert {"mean_wait_s", "fragmentation", "deadline_miss_ratio", "versus", "ci95", "seed", "seeds"} <= found
    assert {"fair_start_miss_ratio", "compacted_cell_ratio", "value_attained_ratio", "max_cascade"} <= found
    assert [name for name in sorted(found) if f"`{name}`" not in page] == []
