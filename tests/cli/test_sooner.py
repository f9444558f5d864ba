"""What would start a job sooner: the answers that the page gets, played forward."""

from __future__ import annotations

import pytest

from phalanx.cli.views.page.sooner import answer
from phalanx.errors import PhalanxError
from tests.cli.page_clusters import MIXED, NOW_S, cluster


def test_what_would_start_it_sooner_is_played_forward() -> None:
    snapshot = cluster(*MIXED)
    reason = snapshot.reasons["default/waits"]
    asked = answer(snapshot.cluster, "default/waits", "", reason, NOW_S)
    assert asked["start_s"] == pytest.approx(NOW_S + 7200)
    keys = {one["key"] for one in asked["changes"]}
    assert {"pods", "nodes", "priority"} <= keys
    assert all(one["command"] for one in asked["changes"])
    more = answer(snapshot.cluster, "default/waits", "nodes", reason, NOW_S)
    assert more["start_s"] == pytest.approx(NOW_S)
    fewer = answer(snapshot.cluster, "default/waits", "pods", reason, NOW_S)
    assert fewer["start_s"] == pytest.approx(NOW_S)
    assert snapshot.cluster.jobs["default/waits"].job.roles[0].count == 2, "the cluster itself is not changed"


def test_what_cannot_be_changed_is_refused() -> None:
    snapshot = cluster(*MIXED)
    with pytest.raises(PhalanxError, match="no waiting job"):
        answer(snapshot.cluster, "default/none", "", None, NOW_S)
    with pytest.raises(PhalanxError, match="not a change"):
        answer(snapshot.cluster, "default/waits", "magic", None, NOW_S)
