"""Detect gangs of bare pods with too few running pods.

A Job's controller replaces lost pods, or fails the Job. Bare pods are not replaced, or their replacements find no
capacity: the remaining pods then hold their nodes in vain. After a grace period the whole gang is evicted (KAI's stale
gang eviction: `stalenessGracePeriod`, 60 s).

A gang with a succeeded pod is about to end, and never stale (as in KAI). Pods are counted by role, not by shape,
because a replacement may differ a little from the lost pod.
"""

from __future__ import annotations

from collections import Counter

from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.spec.gang_spec import BarePods
from phalanx.model.reason import ReasonCode, format_time


class Staleness:
    """The time since which too few of a start's bare pods run. `since_s`: seconds since the epoch; 0: enough pods
    run."""

    def __init__(self, start: GangStart) -> None:
        self.since_s = 0.0
        self._start = start

    def ends_s(self, grace_s: float) -> float:
        """Return the time at which the gang is taken back if its state does not change, in seconds since the epoch; 0:
        never. `grace_s`: the time for which too few of its pods may run; 0: without limit."""
        if not grace_s or not self._is_stale():
            self.since_s = 0.0
            return 0.0
        if not self.since_s:
            self.since_s = self._start.effects.now_s()
            self._report(grace_s)
        return self.since_s + grace_s

    def _is_stale(self) -> bool:
        """Return whether some bare pods of the gang are on nodes, but fewer than its minimum."""
        start, lacks = self._start, Counter[str]()
        for row in start.seats.rows:
            if isinstance(row.source, BarePods):
                lacks[row.source.role] += row.least - row.bound
        if not start.record.gang or all(missing <= 0 for missing in lacks.values()):
            return False
        return bool(start.bare_pods()) and not start.objects.succeeded_bare

    def _report(self, grace_s: float) -> None:
        """Report by an Event that too few pods run. A gang that is just being bound is not reported, because its pods
        are bound one after the other."""
        start, seats, now_s = self._start, self._start.seats, self.since_s
        if seats.started():
            text = (
                f"{seats.minimum_bound} of the {seats.least} pods that it needs run; unless the others come back, "
                f"it is taken back at {format_time(now_s + grace_s, now_s)}"
            )
            start.effects.report(start.bare_pods()[0], str(ReasonCode.STALE), text, warning=True)
