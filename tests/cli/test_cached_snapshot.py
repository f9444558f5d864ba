"""`cli/views/page/cached_snapshot.py`: a snapshot of objects in caches, and what is off while it is made."""

from __future__ import annotations

import gc
import logging
from unittest import mock

import pytest

from phalanx.cli.views.page import cached_snapshot
from phalanx.cli.views.page.cached_snapshot import decided, uncollected
from tests.cli.page_clusters import MIXED, cluster


@pytest.mark.parametrize("many", [True, False])
def test_garbage_is_collected_afterwards_if_there_is_much(many: bool) -> None:
    with mock.patch.object(gc, "collect") as collect, uncollected(many=many):
        assert not gc.isenabled()
    assert gc.isenabled()
    assert collect.called is many


def test_warnings_are_suppressed_for_users_of_one_namespace() -> None:
    logger = logging.getLogger("phalanx.kube")
    before = logger.level
    with cached_snapshot._quiet(False):
        assert logger.level == before
    with cached_snapshot._quiet(True):
        assert logger.level == logging.ERROR
    assert logger.level == before


def test_a_cycle_is_decided_on_a_copy() -> None:
    snapshot = cluster(*MIXED)
    found = decided(snapshot)
    assert found.plan.actions == snapshot.plan.actions
    assert not found.partial
    assert found.cluster is snapshot.cluster
