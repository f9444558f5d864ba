"""Events reach the scheduler at once, or late and in order; a restart drops those on their way."""

from __future__ import annotations

from phalanx.model.event import Event, NodeGone
from phalanx.simulator.cluster.agenda import Agenda
from phalanx.simulator.cluster.disturbance import Disturbance, Faults, UndeliveredEvents


def arrived(agenda: Agenda) -> list[Event]:
    """Return the events that arrive, in order, until the agenda is empty."""
    found: list[Event] = []
    while (taken := agenda.take()) is not None:
        found += taken[1]()
    return found


def test_without_faults_an_event_arrives_at_once() -> None:
    event = NodeGone("a")
    assert UndeliveredEvents(Agenda([]), None).send("a", event) == (event,)


def test_late_events_about_one_subject_keep_their_order() -> None:
    agenda: Agenda = Agenda([])
    messages = UndeliveredEvents(agenda, Disturbance(Faults(late=0.9, late_s=10.0), seed=1))
    sent, found = [NodeGone(f"{number}") for number in range(50)], list[Event]()
    for event in sent:
        found += messages.send("a", event)
    assert len(found) < len(sent), "some are late"
    assert [*found, *arrived(agenda)] == sent


def test_a_restart_drops_the_events_on_their_way() -> None:
    agenda: Agenda = Agenda([])
    messages = UndeliveredEvents(agenda, Disturbance(Faults(late=1.0, late_s=10.0), seed=1))
    assert messages.send("a", NodeGone("a")) == ()
    messages.keep([NodeGone("b")])
    messages.restart()
    assert (arrived(agenda), messages.has_kept, messages.era) == ([], False, 1)


def test_kept_events_come_first_in_the_next_pass() -> None:
    messages = UndeliveredEvents(Agenda([]), None)
    messages.keep([NodeGone("a")])
    assert messages.with_kept((NodeGone("b"),)) == (NodeGone("a"), NodeGone("b"))
    assert messages.with_kept(()) == ()
