"""What `phalanx explain` says of the time before: from the ledger."""

from __future__ import annotations

from pathlib import Path

from phalanx.cli.terminal.output import local_time
from phalanx.cli.views.entry_view import changes, last_entry
from phalanx.ledger.entry import JobEntry, ReasonEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger

NOW_S = 1_781_618_520.0
ENTRY = JobEntry(
    uid="u1",
    job="ns/train",
    reasons=(ReasonEntry(at_s=NOW_S - 3600, code="NoRoom"), ReasonEntry(at_s=NOW_S - 60, code="Preempted")),
    starts=(StartEntry(at_s=NOW_S - 1800, state=State.PREEMPTED, end_s=NOW_S - 61, by="ns/big", rule="reclaim"),),
)


def test_changes_of_the_reason_and_preemptions_stand_in_the_order_of_time() -> None:
    assert changes(ENTRY) == [
        f"{local_time(NOW_S - 3600)}  NoRoom",
        f"{local_time(NOW_S - 61)}  preempted by ns/big (reclaim)",
        f"{local_time(NOW_S - 60)}  Preempted",
    ]


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
