"""`cli/views/page/cached_snapshot.py`: a snapshot of objects in caches, and what is off while it is made."""

from __future__ import annotations

import gc
import logging
from unittest import mock

import pytest

from phalanx.cli.views.page.cached_snapshot import decided, uncollected
from phalanx.client.kind import JOBS
from tests.cli.page_clusters import MIXED, cluster
from tests.kube.double import job


@pytest.mark.parametrize("many", [True, False])
def test_garbage_is_collected_afterwards_if_there_is_much(many: bool) -> None:
    with mock.patch.object(gc, "collect") as collect, uncollected(many=many):
        assert not gc.isenabled()
    assert gc.isenabled()
    assert collect.called is many


def test_an_invalid_object_is_not_logged_for_each_snapshot(caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogger("phalanx.kube").level
    invalid = {**job("odd", 1), "spec": 5}
    found = cluster(*MIXED, (JOBS, invalid))
    assert "default/odd" not in found.cluster.jobs
    assert not caplog.records
    assert logging.getLogger("phalanx.kube").level == before


def test_a_cycle_is_decided_on_a_copy() -> None:
    snapshot = cluster(*MIXED)
    found = decided(snapshot)
    assert found.plan.actions == snapshot.plan.actions
    assert not found.partial
    assert found.cluster is snapshot.cluster
