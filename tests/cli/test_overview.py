"""`cli/commands/overview.py`: the overview of all commands."""

from __future__ import annotations

import pytest

from phalanx.cli.app import build
from phalanx.cli.commands.overview import COMMANDS
from tests.cli.test_app import call


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, "control-plane", "complete"])
def test_every_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    build(command)([command, "--help"], result_action="return_value")
    out = capsys.readouterr().out
    assert "For example:" in out
    assert f"phalanx {command}" in out.split("For example:")[1]


def test_the_overview_names_every_command_and_imports_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch) == 0
    out = capsys.readouterr().out
    assert all(line in out for _, line in COMMANDS.values())
    assert "phalanx run -- echo hello" in out
