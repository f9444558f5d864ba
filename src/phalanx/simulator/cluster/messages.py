"""The events on their way to the scheduler of a simulated cluster.

With faults, some events arrive late. No event overtakes an earlier event about the same subject."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from phalanx.model.event import Event
from phalanx.simulator.cluster.agenda import Agenda, AgendaKind
from phalanx.simulator.cluster.disturbance import Disturbance


class Messages:
    """`disturbance`: draws the delays; None: nothing is late. `era`: the number of restarts of the scheduler."""

    def __init__(self, agenda: Agenda[Any], disturbance: Disturbance | None) -> None:
        self._agenda, self._disturbance = agenda, disturbance
        self.era = 0
        self._kept: list[Event] = []
        self._sent_until_s: dict[str, float] = {}  # subject -> the arrival of its last event

    @property
    def has_kept(self) -> bool:
        """Return whether events wait for the next scheduling pass."""
        return bool(self._kept)

    def send(self, subject: str, event: Event) -> Sequence[Event]:
        """Return the event if it arrives now; otherwise schedule its arrival and return nothing."""
        if self._disturbance is None:
            return (event,)
        now_s = self._agenda.now_s
        at_s = now_s + self._disturbance.message_delay_s(subject, now_s)
        at_s = self._sent_until_s[subject] = max(at_s, self._sent_until_s.get(subject, 0.0))
        if at_s <= now_s:
            return (event,)
        self._agenda.put(at_s, AgendaKind.MESSAGE, partial(self._deliver, self.era, event))
        return ()

    def _deliver(self, era: int, event: Event) -> Sequence[Event]:
        return (event,) if era == self.era else ()

    def keep(self, events: Sequence[Event]) -> None:
        """Keep the events for the next scheduling pass."""
        self._kept += events

    def with_kept(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events of a scheduling pass: the events that were kept for it, then these."""
        if not self._kept:
            return events
        found, self._kept = (*self._kept, *events), []
        return found

    def restart(self) -> None:
        """Drop all events on their way, because the scheduler restarts with a full list."""
        self.era += 1
        self._kept.clear()
        self._sent_until_s.clear()
