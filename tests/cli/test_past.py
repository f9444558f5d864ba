"""The ledger of jobs that are over, copied to another cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.submission.moving.past import MOVED_TO, copy_ledger, require_ledger
from phalanx.cli.submission.moving.portable import Copier, MoveTally
from phalanx.errors import PhalanxError
from phalanx.ledger.entry import JobEntry, State, url_of
from phalanx.ledger.selection import Selection
from phalanx.ledger.store import Ledger


def entry(uid: str, end_s: float | None = 2.0, **words: str) -> JobEntry:
    state = State.RUNNING if end_s is None else State.COMPLETED
    return JobEntry(uid=uid, job=f"ns/{uid}", user="ada", queue="q", account="q", submit_s=1.0, end_s=end_s,
                    state=state, words=words)  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = url_of(tmp_path_factory.mktemp("past") / "source.sqlite3")
    with Ledger.open(url) as ledger:
        ledger.put([entry("over"), entry("there"), entry("live", None), entry("moved", **{MOVED_TO: "x"})])
    return url


def copier(*, dry: bool = False) -> Copier:
    target: Any = None
    return Copier(target=target, tally=MoveTally(), dry=dry)


def test_jobs_that_are_over_are_copied_once(source: str, tmp_path: Path) -> None:
    target = url_of(tmp_path / "target.sqlite3")
    with Ledger.open(target) as ledger:
        ledger.put([entry("there")])
    made = copier()
    copy_ledger(source, target, made)
    row = made.tally.row("job in the ledger")
    assert (row.found, row.there, row.moved) == (2, 1, 1)
    with Ledger.open(target, read_only=True) as ledger:
        assert {one.uid for one in ledger.jobs(Selection())} == {"over", "there"}


def test_a_dry_run_makes_no_ledger(source: str, tmp_path: Path) -> None:
    made = copier(dry=True)
    copy_ledger(source, url_of(tmp_path / "target.sqlite3"), made)
    assert made.tally.row("job in the ledger").moved == 2
    assert not (tmp_path / "target.sqlite3").exists()
    require_ledger(url_of(tmp_path / "target.sqlite3"), dry=True)
    assert not (tmp_path / "target.sqlite3").exists()


def test_without_a_target_it_says_what_stays(source: str) -> None:
    made = copier()
    copy_ledger(source, None, made)
    row = made.tally.row("job in the ledger")
    assert (row.found, row.moved) == (2, 0)
    copy_ledger(None, None, made)
    assert row.found == 2


def test_a_ledger_is_not_copied_to_itself(source: str) -> None:
    with pytest.raises(PhalanxError, match="is the ledger of the source cluster"):
        copy_ledger(source, source, copier())
