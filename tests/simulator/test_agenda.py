"""`simulator/cluster/agenda.py`: the virtual clock."""

from __future__ import annotations

from phalanx.simulator.cluster.agenda import Agenda, AgendaKind


def test_whoever_was_put_first_comes_first_within_a_kind() -> None:
    agenda: Agenda[str] = Agenda([(1.0, "submission")])
    for what, kind in (
        ("wake", AgendaKind.WAKE),
        ("end 1", AgendaKind.END),
        ("limit", AgendaKind.FORESEEN),
        ("end 2", AgendaKind.END),
    ):
        agenda.put(1.0, kind, what)
    assert [agenda.take()[1] for _ in range(5)] == ["limit", "submission", "end 1", "end 2", "wake"]
    assert agenda.take() is None


def test_the_past_is_over() -> None:
    agenda: Agenda[str] = Agenda([(10.0, "submission")])
    agenda.take()
    agenda.put(3.0, AgendaKind.END, "late")
    agenda.take()
    assert agenda.now_s == 10.0
