"""docs/guide/command-line.md says what the commands say: its blocks are their help, word for word.

`PHALANX_REWRITE=1 pytest tests/cli/test_help_pages.py` writes them anew; read the difference."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from phalanx.cli.app import COMMANDS, build

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "command-line.md"
BLOCK = re.compile(r"(<!-- help: (?P<command>[a-z-]*) -->\n```text\n)(?P<text>.*?)(```\n)", re.DOTALL)


def help_of(command: str) -> str:
    console = Console(width=100, color_system=None, force_terminal=False)
    with console.capture() as printed:
        build(command)([command, "--help"] if command else [], console=console, result_action="return_value")
    return "\n".join(line.rstrip() for line in printed.get().splitlines()).strip() + "\n"


def test_the_page_shows_each_help_as_it_is() -> None:
    page = PAGE.read_text()
    now = BLOCK.sub(lambda found: found[1] + help_of(found["command"]) + found[4], page)
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(now)
    assert page == now, "the help has changed: PHALANX_REWRITE=1 .venv/bin/pytest tests/cli/test_help_pages.py"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_no_command_is_left_out(command: str) -> None:
    assert f"<!-- help: {command} -->" in PAGE.read_text()
