"""`simulator/cluster/agenda.py`: the virtual clock."""

from __future__ import annotations

from phalanx.simulator.cluster.agenda import Agenda, Kind


def test_whoever_was_put_first_comes_first_within_a_kind() -> None:
    agenda: Agenda[str] = Agenda([(1.0, "submission")])
    for what, kind in (("wake", Kind.WAKE), ("end 1", Kind.END), ("limit", Kind.FORESEEN), ("end 2", Kind.END)):
        agenda.put(1.0, kind, what)
    assert [agenda.take()[1] for _ in range(5)] == ["limit", "submission", "end 1", "end 2", "wake"]
    assert agenda.take() is None


def test_the_past_is_over() -> None:
    agenda: Agenda[str] = Agenda([(10.0, "submission")])
    agenda.take()
    agenda.put(3.0, Kind.END, "late")
    agenda.take()
    assert agenda.now_s == 10.0
