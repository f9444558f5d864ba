"""`phalanx cancel`: what it says, and when it asks."""

from __future__ import annotations

import asyncio
import json

import pytest

from phalanx.cli.commands.attend import cancel
from phalanx.errors import PhalanxError
from tests.cli.found_jobs import found_job

A, B = found_job("a"), found_job("b")
STATES = {"ns/a": "running", "ns/b": "complete"}


def test_each_job_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    cancel._tell([A, B], [A], STATES, dry_run=False, json=False)
    out, err = capsys.readouterr()
    assert out == "job ns/a cancelled\n"
    assert err == "job ns/b is complete already\n"
    cancel._tell([A], [A], STATES, dry_run=True, json=False)
    assert capsys.readouterr().out == "job ns/a (running) would be cancelled\n"
    cancel._tell([], [], {}, dry_run=False, json=False)
    assert capsys.readouterr().err == "these options select no job; nothing was cancelled\n"


@pytest.mark.parametrize("dry_run", [False, True])
def test_json_has_what_was_cancelled(dry_run: bool, capsys: pytest.CaptureFixture[str]) -> None:
    cancel._tell([A, B], [A], STATES, dry_run=dry_run, json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"job": "ns/a", "kind": "job", "state": "running", "cancelled": not dry_run},
        {"job": "ns/b", "kind": "job", "state": "complete", "cancelled": False},
    ]


def test_many_jobs_are_not_cancelled_without_a_terminal_to_ask_at() -> None:
    many = [found_job(f"j{at}") for at in range(12)]
    with pytest.raises(PhalanxError) as raised:
        asyncio.run(cancel._ask(many))
    assert "this would cancel 12 jobs (ns/j0, ns/j1, ns/j2, ns/j3, ns/j4 and 7 more)" in str(raised.value)


@pytest.mark.parametrize(("typed", "agreed"), [("y", True), (" YES ", True), ("", False), ("n", False), (None, False)])
def test_only_a_clear_yes_agrees(
    typed: str | None, agreed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer() -> str:
        if typed is None:
            raise EOFError
        return typed

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr(cancel.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(cancel.sys.stderr, "isatty", lambda: True)
    if agreed:
        asyncio.run(cancel._ask([A] * 11))
    else:
        with pytest.raises(PhalanxError, match="nothing was cancelled"):
            asyncio.run(cancel._ask([A] * 11))
    assert capsys.readouterr().err.endswith("[y/N] ")
