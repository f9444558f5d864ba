"""`cli/cluster/scheduling/glance.py`: the statuses of queues that were computed last, and the figures for users."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.cluster.scheduling import glance as glance_module
from phalanx.cli.cluster.scheduling.glance import Glance
from tests.core.builders import cluster, job, node, role


def glance() -> Glance:
    return Glance(cluster(node("n", cpu=8), job("waits", role(cpu=4))), now_s=lambda: 100.0)


def test_statuses_are_computed_by_the_writer_only() -> None:
    one = glance()
    assert (one.standings, one.starts()) == ((), {})
    found = one.look()
    assert [each.queue for each in found if hasattr(each, "queue")] or found
    assert one.standings is found
    assert one.overview is not None


def test_expected_starts_are_those_of_the_last_look() -> None:
    one = glance()
    places = [SimpleNamespace(job="a", start_s=7.0), SimpleNamespace(job="b", start_s=None)]
    one.standings = [SimpleNamespace(first=places)]  # type: ignore[list-item]  # a double
    assert one.starts() == {"a": 7.0}


def test_figures_take_at_most_a_twentieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, cost_s, computed = 0.0, 2.0, 0

    def source_of(*_: Any) -> object:
        nonlocal now_s, computed
        now_s, computed = now_s + cost_s, computed + 1
        return object()

    monkeypatch.setattr(glance_module.time, "monotonic", lambda: now_s)
    monkeypatch.setattr(glance_module.answering, "source_of", source_of)
    one = glance()
    first = one.numbers()
    for at_s, again in ((3.0, False), (39.9, False), (40.1, True)):
        now_s = at_s
        assert (one.numbers() is not first) is again
    assert computed == 2
    cost_s, now_s = 0.0, 1000.0
    cheap = one.numbers()
    now_s = 1000.9
    assert one.numbers() is cheap
    now_s = 1001.1
    assert one.numbers() is not cheap


def test_a_job_that_is_gone_has_no_reason() -> None:
    assert glance()._reason("none") is None
