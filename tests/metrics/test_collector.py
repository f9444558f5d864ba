"""`metrics/collector.py`: all metrics of the scheduler."""

from __future__ import annotations

from phalanx.cli.cluster.monitoring import overdue, unreachable
from phalanx.client.tally import Tally
from phalanx.metrics.collector import Leader, Scheduler, registry
from phalanx.metrics.decisions import Decisions
from phalanx.model.queue import QueueState
from phalanx.model.status import ClusterStatus, QueueStatus, ResourceUsage
from tests.metrics.exposition import Series, series, value
from tests.metrics.test_serving import asked


def scraped(scheduler: Scheduler) -> Series:
    code, text = asked(registry(scheduler), "/metrics")
    assert code == 200
    return series(text)


def standing(queue: str) -> QueueStatus:
    return QueueStatus(
        queue=queue,
        parent="",
        depth=0,
        pending=7,
        running=2,
        share=float("inf"),
        usage=(
            ResourceUsage(flavor="", resource="cpu", used=1500, guaranteed=2000, limit=4000),
            ResourceUsage(flavor="h100", resource="memory", used=1 << 30),
        ),
        state=QueueState.OPEN,
        state_since_s=0.0,
        held_by="",
        fault="",
        first=(),
    )


def leader(standings: list[QueueStatus]) -> Leader:
    return Leader(
        decisions=Decisions(),
        standings=lambda: standings,
        overview=lambda: ClusterStatus(
            waiting={"NoRoom": 6, "Held": 1}, nodes=3, ready=2, allocatable={"cpu": 8000}, free={"cpu": -500}
        ),
        unanswered=lambda: 5,
        unsent=lambda: 3,
        breaches=lambda: 0,
    )


def test_amounts_are_in_base_units() -> None:
    scheduler = Scheduler(Tally())
    scheduler.leader = leader([standing("vision")])
    found = scraped(scheduler)
    assert value(found, "phalanx_queue_used", queue="vision", resource="cpu") == 1.5
    assert value(found, "phalanx_queue_used", flavor="h100", resource="memory") == 1 << 30
    assert value(found, "phalanx_queue_limit") == 4.0
    assert value(found, "phalanx_nodes_free", resource="cpu") == -0.5
    assert value(found, "phalanx_queue_jobs", state="pending") == 7
    assert value(found, "phalanx_waiting_jobs", reason="NoRoom") == 6
    assert value(found, "phalanx_nodes", ready="false") == 1
    assert value(found, "phalanx_queue_share") == float("inf")


def test_calls_are_shown_with_their_latencies() -> None:
    tally = Tally()
    with tally.attempt("POST", "/api/v1/namespaces/a/pods/p/binding") as made:
        made.code = 201
    found = scraped(Scheduler(tally))
    binding = {"verb": "create", "group": "", "resource": "pods/binding"}
    assert value(found, "phalanx_api_calls_total", **binding, code="201") == 1
    assert value(found, "phalanx_api_call_seconds_count", **binding) == 1
    assert value(found, "phalanx_api_call_seconds_bucket", **binding, le="+Inf") == 1


def test_who_stands_by_says_so_and_tells_nothing_of_queues() -> None:
    found = scraped(Scheduler(Tally(), lambda: 0.0))
    assert value(found, "phalanx_leader") == 0
    assert not [name for name, _ in found if name.startswith("phalanx_queue")]


def test_a_queue_that_is_gone_is_gone_from_the_next_scrape() -> None:
    standings = [standing("a"), standing("b")]
    scheduler = Scheduler(Tally())
    scheduler.leader = leader(standings)
    assert value(scraped(scheduler), "phalanx_queue_jobs", queue="b", state="running") == 2
    standings.pop()
    assert "b" not in {dict(labels).get("queue") for _, labels in scraped(scheduler)}


def test_what_makes_a_process_unready_and_unhealthy() -> None:
    tally = Tally()
    assert "not answered yet" in unreachable(tally, 100.0)
    tally.answered_s = 90.0
    assert unreachable(tally, 100.0) == ""
    assert "for 20 s" in unreachable(tally, 110.0)
    standby = Scheduler(tally, lambda: -1.0)
    assert overdue(standby) == ""
    standby.leader = leader([])
    assert "lease" in overdue(standby)
