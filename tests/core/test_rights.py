"""Whom a job may make give way, asked quickly and asked in full."""

from __future__ import annotations

from collections import Counter

import pytest

from phalanx.core.rights import Rights
from phalanx.model.preemption import Floor, Preemption, Reclaim
from tests.core import test_no_flapping as rivals

TREES = range(24)
BY_SHARE = Preemption(reclaim=Reclaim.ANY, down_to=Floor.FAIR_SHARE)


@pytest.mark.slow
def test_where_nobody_is_richer_no_rule_lets_anybody_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`anybody` is over at once where shares alone count and none is above what one's own would be. All rules, asked
    job by job, say the same."""
    met: Counter[tuple[bool, bool]] = Counter()
    anybody = Rights.anybody

    def compared(self: Rights) -> bool:
        found = anybody(self)
        may, _ = self.askable()
        assert found == bool(may[self.residents.movable()].any())
        met[self._goes_by_share_alone(), found] += 1
        return found

    monkeypatch.setattr(Rights, "anybody", compared)
    monkeypatch.setattr(rivals, "preemption", lambda seed: BY_SHARE)
    for number in TREES:
        rivals.run(number)
    assert met[True, False]
    assert met[True, True]
