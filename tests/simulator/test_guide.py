"""The guide's example run is what the command prints, but for how fast it was.

`PHALANX_REWRITE=1 pytest tests/simulator/test_guide.py` writes it anew; read the difference."""

from __future__ import annotations

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


@pytest.mark.slow
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
