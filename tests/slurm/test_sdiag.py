"""sdiag's part on the scheduler, from a page of metrics."""

from __future__ import annotations

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.commands.cluster import sdiag

PAGE = """# HELP phalanx_cycle_seconds How long
phalanx_cycle_seconds_count{phase="decide"} 20.0
phalanx_cycle_seconds_sum{phase="decide"} 0.03
phalanx_cycle_seconds_count{phase="fold"} 20.0
phalanx_cycle_seconds_sum{phase="fold"} 0.01
phalanx_decisions_total{action="start",queue="a \\"b"} 7.0
phalanx_decisions_total{action="preempt",queue="a"} 9.0
phalanx_waiting_jobs{reason="NoRoom"} 3.0
phalanx_waiting_jobs{reason="BehindHead"} 2.0
phalanx_api_call_seconds_count{verb="patch",group="batch",resource="jobs"} 4.0
phalanx_api_call_seconds_sum{verb="patch",group="batch",resource="jobs"} 0.002
phalanx_api_call_seconds_count{verb="list",group="",resource="pods"} 1.0
phalanx_api_call_seconds_sum{verb="list",group="",resource="pods"} 0.5
"""


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_METRICS", "http://127.0.0.1:9")
    monkeypatch.setattr(sdiag, "_page", lambda url: PAGE)


def test_it_sums_phases_and_queues(page: None) -> None:
    said = "\n".join(sdiag._scheduler({}))
    assert "\tTotal cycles: 20\n\tMean cycle:   2000\n\tJobs started: 7\n\tLast queue length: 5" in said
    assert "count:4      ave_time:500    total_time:2000" in said


@pytest.mark.parametrize(
    ("option", "first"), [("", "patch batch/jobs"), ("sort-by-id", "list pods"), ("sort-by-time", "list pods")]
)
def test_calls_are_in_the_order_that_is_asked_for(option: str, first: str, page: None) -> None:
    lines = [line for part in sdiag._scheduler({option: None}) for line in part.split("\n")]
    calls = lines[lines.index("Remote Procedure Call statistics by message type") + 1 :]
    assert calls[0].strip().startswith(first)
    assert len(calls) == 2


@pytest.mark.parametrize("url", ["https://h", "http://", "http://127.0.0.1:1", "http://127.0.0.1:x"])
def test_an_address_that_is_none_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_METRICS", url)
    with pytest.raises(PhalanxError):
        list(sdiag._scheduler({}))
