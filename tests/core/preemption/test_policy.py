"""The jobs that a job may preempt: the fast check and the full rules."""

from __future__ import annotations

from collections import Counter

import pytest

from phalanx.core.preemption.policy import PreemptionPolicy
from phalanx.model.queue import QueuePreemption, ReclaimFloor, ReclaimWithinCohort
from tests.core.preemption import test_no_flapping as rivals

TREES = range(24)
BY_SHARE = QueuePreemption(reclaim=ReclaimWithinCohort.ANY, down_to=ReclaimFloor.FAIR_SHARE)


@pytest.mark.slow
def test_where_nobody_is_richer_no_rule_lets_anybody_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast check ends at once if only shares count and no queue's share is above the preemptor's future share. All
    rules, applied job by job, agree."""
    met: Counter[tuple[bool, bool]] = Counter()
    anybody = PreemptionPolicy.has_candidates

    def compared(self: PreemptionPolicy) -> bool:
        found = anybody(self)
        may, _ = self.may_be_asked()
        assert found == bool(may[self.running_pods.movable()].any())
        met[self._goes_by_share_alone(), found] += 1
        return found

    monkeypatch.setattr(PreemptionPolicy, "has_candidates", compared)
    monkeypatch.setattr(rivals, "preemption", lambda seed: BY_SHARE)
    for number in TREES:
        rivals.run(number)
    assert met[True, False]
    assert met[True, True]
