"""salloc: the command that it runs, and the end of its allocation."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.slurm.commands.launch import salloc
from phalanx.slurm.jobs.steps.pods.channel import Broken
from phalanx.slurm.options import Usage


class Hold:
    """The connection that holds an allocation. It ends at once, or never."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends

    def receive(self) -> None:
        if self.ends:
            raise Broken("the connection was closed")
        threading.Event().wait(60)


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(salloc, "_variables", lambda granted, said: {"SLURM_JOB_ID": "7"})
    monkeypatch.setattr(salloc, "_lost", threading.Event())
    return SimpleNamespace(hold=Hold(ends=False), place=SimpleNamespace(number=7), groups={})


def test_a_command_has_the_variables_and_its_code_is_that_of_salloc(granted: Any) -> None:
    code = "import os, sys; sys.exit(int(os.environ['SLURM_JOB_ID']))"
    assert salloc._command(granted, {}, [sys.executable, "-c", code]) == 7


def test_a_command_that_a_signal_ended_has_128_more(granted: Any) -> None:
    assert salloc._command(granted, {}, ["sh", "-c", "kill -TERM $$"]) == 128 + 15


def test_a_command_that_is_missing_is_told(granted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert salloc._command(granted, {}, ["no-such-command"]) == 1
    assert 'Unable to find command "no-such-command"' in capsys.readouterr().err


def test_a_directory_that_is_missing_is_told(granted: Any) -> None:
    with pytest.raises(Usage, match="salloc: error: sh: No such file or directory"):
        salloc._command(granted, {"chdir": "/no/such/directory"}, ["sh"])


def test_the_end_of_the_allocation_ends_the_command(granted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    granted.hold = Hold(ends=True)
    assert salloc._command(granted, {}, ["sleep", "60"]) == 128 + 1
    assert "Job allocation 7 has been revoked." in capsys.readouterr().err
