"""Kueue's metrics for dashboards and alerts, with the Kueue dialect enabled.

`PHALANX_REWRITE=1 pytest tests/dialects/kueue/test_figures.py` writes the table of docs/dialects/kueue.md again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from math import inf
from pathlib import Path

from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from phalanx.client.tally import MetricFamily, Tally
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.figures import KueueFigures
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS
from phalanx.metrics.collector import Leader, Scheduler
from phalanx.metrics.decisions import Decisions
from phalanx.model.status import ClusterStatus
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import conditions, job, stage_with
from tests.metrics.exposition import Series, series

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "kueue.md"
TABLE = re.compile(r"(<!-- metrics -->\n)(.*?)(<!-- end of metrics -->)", re.DOTALL)


class Scrape:
    """The metrics of the stage's scheduler. Counters count from the creation of this object."""

    def __init__(self, stage: Stage) -> None:
        scheduler = Scheduler(Tally())
        scheduler.leader = Leader(
            decisions=Decisions(),
            standings=lambda: (),
            overview=ClusterStatus,
            unanswered=lambda: 0,
            unsent=lambda: 0,
            breaches=lambda: 0,
            others=stage.world.answers.reports.counted(),
        )
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(scheduler)

    @property
    def series(self) -> Series:
        return series(generate_latest(self._registry).decode())

    def __call__(self, metric: str, /, **labels: str) -> float:
        """Return the sum of the series of that metric with at least these labels."""
        wanted = frozenset(labels.items())
        return sum(
            amount for (sample, said), amount in self.series.items() if sample == f"kueue_{metric}" and wanted <= said
        )

    def reads(self, metric: str, wanted: float, /, **labels: str) -> Callable[[], bool]:
        """Return a function that returns whether the metric has this value."""
        return lambda: self(metric, **labels) == wanted


def test_admissions_waits_and_amounts_are_counted_by_cluster_queue_and_local_queue() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2))
        async with stage.scheduler():
            scrape = Scrape(stage)
            await stage.until(scrape.reads("admitted_workloads_total", 1, cluster_queue="a", priority_class=""))
            stage.put(job("two", 2))
            await stage.until(scrape.reads("pending_workloads", 1, cluster_queue="a", status="inadmissible"))
            assert scrape("pending_workloads", cluster_queue="a", status="active") == 0
            assert scrape("admitted_active_workloads", cluster_queue="a") == 1
            assert scrape("reserving_active_workloads", cluster_queue="a") == 1
            assert scrape("quota_reserved_workloads_total", cluster_queue="a", replica_role="leader") == 1
            assert scrape("local_queue_admitted_workloads_total", name="l", namespace="default") == 1
            assert scrape("local_queue_pending_workloads", name="l", status="inadmissible") == 1
            quota = {"cohort": "", "cluster_queue": "a", "flavor": "f", "resource": "cpu"}
            assert scrape("cluster_queue_resource_usage", **quota) == 2.0
            assert scrape("cluster_queue_resource_reservation", **quota) == 2.0
            assert scrape("cluster_queue_nominal_quota", **quota) == 3.0
            assert scrape("cluster_queue_borrowing_limit", **quota) == inf
            assert scrape("cluster_queue_lending_limit", **quota) == inf
            assert scrape("local_queue_resource_usage", name="l", flavor="f", resource="cpu") == 2.0
            assert scrape("admission_wait_time_seconds_count", cluster_queue="a") == 1
            assert scrape("admission_wait_time_seconds_bucket", cluster_queue="a", le="1.0") == 1
            assert scrape("admission_checks_wait_time_seconds_count") == 1
            assert scrape("local_queue_status", name="l", active="True") == 1

    play(scene())


def test_who_gives_way_is_counted_as_evicted_and_as_preempted() -> None:
    async def scene() -> None:
        stage = stage_with(2, preemption={"withinClusterQueue": "LowerPriority"})
        stage.api.put(kinds.PRIORITY_CLASSES, named("high", value=10))
        stage.put(job("low", 2))
        async with stage.scheduler():
            scrape = Scrape(stage)
            await stage.until(lambda: conditions(stage, "low").get("Admitted") == "True Admitted")
            stage.put(job("urgent", 2, priority_class="high"))
            await stage.until(scrape.reads("admitted_workloads_total", 1, cluster_queue="a", priority_class="high"))
            evicted = {"reason": "Preempted", "underlying_cause": "", "priority_class": ""}
            await stage.until(scrape.reads("evicted_workloads_total", 1, cluster_queue="a", **evicted))
            assert scrape("local_queue_evicted_workloads_total", name="l", **evicted) == 1
            assert scrape("evicted_workloads_once_total", cluster_queue="a", detailed_reason="") == 1
            assert scrape("preempted_workloads_total", preempting_cluster_queue="a", reason="InClusterQueue") == 1

    play(scene())


def test_a_class_that_is_not_there_and_a_queue_that_is_gone_have_no_series() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("odd", 1, priority_class="made-up"), job("one", 1))
        async with stage.scheduler():
            scrape = Scrape(stage)
            await stage.until(scrape.reads("admitted_workloads_total", 1, cluster_queue="a", priority_class=""))
            assert not any(said == "made-up" for _, labels in scrape.series for _, said in labels)
            stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("b", group(f={"cpu": 1})))
            stage.api.put(kinds.LOCAL_QUEUES, local_queue("m", "b"))
            other = job("two", 1)
            other["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "m"
            stage.put(other)
            await stage.until(scrape.reads("admitted_workloads_total", 1, cluster_queue="b"))
            stage.api.drop(kinds.LOCAL_QUEUES, "default/m")
            stage.api.drop(kinds.CLUSTER_QUEUES, "b")
            await stage.until(lambda: not any(("cluster_queue", "b") in labels for _, labels in scrape.series))
            assert not any(("name", "m") in labels for _, labels in scrape.series)

    play(scene())


def test_the_state_of_a_cluster_queue_and_the_shares_of_cohorts() -> None:
    async def scene() -> None:
        stage = stage_with(2, cohortName="c", fairSharing={"weight": "0"})
        text = "fairSharing: {}"
        meta = {"name": "kueue-manager-config", "namespace": "kueue-system"}
        stage.api.put(CONFIGURATIONS, {"metadata": meta, "data": {"controller_manager_config.yaml": text}})
        stage.api.put(kinds.COHORTS, named("c", spec={}))
        stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("b", group(f={"cpu": 4}), cohortName="c"))
        stage.put(job("one", 4))
        async with stage.scheduler():
            scrape = Scrape(stage)
            await stage.until(scrape.reads("admitted_workloads_total", 1, cluster_queue="a"))
            await stage.until(scrape.reads("admitted_active_workloads", 1, cluster_queue="a"))
            share = scrape("cluster_queue_weighted_share", cluster_queue="a", cohort="c")
            assert share != share, "a queue of no weight that borrows has the share NaN"
            assert scrape("cluster_queue_weighted_share", cluster_queue="b", cohort="c") == 0
            assert scrape("cohort_weighted_share", cohort="c") == 0
            assert scrape("cluster_queue_status", cluster_queue="a", status="active") == 1
            stage.api.drop(kinds.RESOURCE_FLAVORS, "f")
            await stage.until(scrape.reads("cluster_queue_status", 1, cluster_queue="a", status="pending"))
            assert scrape("cluster_queue_status", cluster_queue="a", status="active") == 0

    play(scene())


def test_a_finished_job_is_counted_once_and_holds_nothing() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 1))
        async with stage.scheduler():
            scrape = Scrape(stage)
            await stage.until(lambda: len(stage.api.bound()) == 1)
            stage.finish(next(iter(stage.api.bound())).rpartition("/")[2])
            await stage.until(scrape.reads("finished_workloads_total", 1, cluster_queue="a"))
            await stage.until(scrape.reads("finished_workloads", 1, cluster_queue="a"))
            assert scrape("admitted_active_workloads", cluster_queue="a") == 0
            assert scrape("cluster_queue_resource_usage", cluster_queue="a") == 0

    play(scene())


def test_the_page_lists_every_metric() -> None:
    def row(family: MetricFamily) -> str:
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in family.labels if label != "replica_role")
        return f"| `{name}` | {family.type} | {labels} | {family.words} |"

    rows = ["| metric | type | labels | what |", "|---|---|---|---|", *map(row, KueueFigures().families())]
    page = PAGE.read_text()
    now = TABLE.sub(lambda found: found[1] + "\n" + "\n".join(rows) + "\n\n" + found[3], page)
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(now)
    hint = "PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/kueue/test_figures.py"
    assert page == now, f"the metrics have changed: {hint}"
