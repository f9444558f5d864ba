"""Lines that sleep because of other pods: affinity, anti-affinity or spread left no node. Room does not wake them, pods
that come or go do, if the gang's pods heed such (`peers.concerns`). Kinds that changed are looked at once per fold."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.state.classes import AffinityClass, Demand
from phalanx.state.nodes.pod_index import change_may_help
from phalanx.state.pending.line import LineKey

REMEMBERED = 1 << 16


class Heeding:
    def __init__(self) -> None:
        self.lines: dict[LineKey, None] = {}
        self._known: dict[tuple[Demand, AffinityClass], bool] = {}

    def sleep(self, key: LineKey) -> None:
        """The line sleeps, and other pods are part of the reason."""
        self.lines[key] = None

    def forget(self, key: LineKey) -> None:
        self.lines.pop(key, None)

    def woken(self, changed: Iterable[AffinityClass]) -> dict[LineKey, None]:
        """The lines that those kinds concern."""
        kinds = list(changed)
        if not kinds or not self.lines:
            return {}
        return {key: None for key in self.lines if any(self._heeds(each, kinds) for each in key.gang.demands)}

    def copy(self) -> Heeding:
        other = Heeding()
        other.lines = dict(self.lines)
        return other

    def _heeds(self, demand: Demand, kinds: list[AffinityClass]) -> bool:
        for kind in kinds:
            known = self._known.get((demand, kind))
            if known is None:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                known = self._known[demand, kind] = change_may_help(demand.shape, demand.kind, kind)
            if known:
                return True
        return False
