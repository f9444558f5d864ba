"""What `phalanx explain` says of the time before: from the ledger."""

from __future__ import annotations

from phalanx.cli.commands.status.explain import as_said_by
from phalanx.cli.terminal.output import local_time
from phalanx.cli.views.entry_view import changes
from phalanx.dialects.frame.peer_reasons import Peer
from phalanx.ledger.entry import JobEntry, ReasonEntry, StartEntry, State
from phalanx.model.reason import Reason, ReasonCode

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


def test_a_reason_is_said_in_the_words_of_another_scheduler_or_why_it_has_none() -> None:
    reason = Reason(code=ReasonCode.BEGIN_TIME, text="")
    assert as_said_by(Peer.SLURM, reason.code, reason.numbers) == "as slurm says it\n  BeginTime"
    assert as_said_by(Peer.KUEUE, reason.code, reason.numbers).startswith(
        "as kueue says it\n  it has no term for this: "
    )
