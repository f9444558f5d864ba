"""Commands that only hand something over start quickly: they import no scheduler and no database."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "phalanx.core", "phalanx.state", "sqlalchemy")


@pytest.mark.parametrize("command", ["work.submit", "work.run", "one_machine.up"])
def test_it_imports_no_scheduler_and_no_database(command: str) -> None:
    program = f"import sys, phalanx.cli.commands.{command}; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert f"phalanx.cli.commands.{command}" in modules
    assert not {one for one in modules if one.startswith(HEAVY)}


def test_the_first_expression_brings_no_command_line_along() -> None:
    """The CEL library imports its own, with all that draws it."""
    program = "import sys; from phalanx.embedded.apiserver.apimachinery.expressions.cel import compiled as c; "
    program += "print(c('1 + 1').evaluate({}), *sys.modules)"
    words = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert words[0] == "2"
    assert "prompt_toolkit" not in words
