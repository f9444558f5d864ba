"""`cli/views/entry_view.py`: A job as the ledger knows it."""

from __future__ import annotations

from pathlib import Path

from phalanx.cli.views.entry_view import changes, last_entry
from phalanx.ledger.entry import JobEntry, ReasonEntry, url_of
from phalanx.ledger.store import Ledger
from tests.cli.test_explain import ENTRY, NOW_S


def test_only_the_last_lines_are_shown() -> None:
    many = tuple(ReasonEntry(at_s=NOW_S - 100 + at, code=f"Code{at}") for at in range(40))
    assert [line.split()[-1] for line in changes(JobEntry(uid="u", job="a/b", reasons=many))] == [
        f"Code{at}" for at in range(30, 40)
    ]


def test_the_job_that_was_submitted_last_counts(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ledger.sqlite3")
    with Ledger.open(url) as ledger:
        ledger.put([JobEntry(uid="u0", job="ns/train", submit_s=1.0), ENTRY, JobEntry(uid="u2", job="ns/other")])
        ledger.put([JobEntry(uid="u3", job="ns/train", submit_s=9.0)])
    found = last_entry(url, "ns/train")
    assert found is not None
    assert found.uid == "u3"
    assert last_entry(url, "ns/none") is None
