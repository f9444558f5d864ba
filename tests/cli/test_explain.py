"""What `phalanx explain` says of the time before: from the ledger."""

from __future__ import annotations

from phalanx.cli.terminal.output import local_time
from phalanx.cli.views.entry_view import changes
from phalanx.ledger.entry import JobEntry, ReasonEntry, StartEntry, State

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
