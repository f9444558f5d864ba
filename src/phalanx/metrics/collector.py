"""All metrics of the scheduler: the name, the help text and the source of each.

The scheduler never writes to a registry. `client.tally` and `metrics.decisions` count in plain numbers, and the metrics
of a queue are taken from the queue's last computed status. Each scrape converts these numbers to the exposition format,
so metrics cost time only during a scrape.

Labels are verbs, kinds, queues, flavors, resources and codes, never the names of jobs, pods, nodes or users. If the
dialect (API) of another scheduler is enabled, the metrics in `Leader.others` have that scheduler's names and labels.

The aggregated API server of `phalanx visibility` has two metrics of its own: the number of requests by status code, and
the expiry of its certificate."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from prometheus_client.metrics_core import CounterMetricFamily as Counter
from prometheus_client.metrics_core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import HistogramMetricFamily as Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from phalanx import __version__
from phalanx.client.tally import MetricFamily, Spread, Tally
from phalanx.metrics.decisions import Decisions
from phalanx.model.pod import CPU, Amount
from phalanx.model.status import ClusterStatus, QueueStatus

_CALL = ("verb", "group", "resource")
_QUOTA = ("queue", "flavor", "resource")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The data for metrics that only the leading scheduler process has. All fields except `decisions` are functions
    that return a current value.
    `standings`, `overview`: the last computed status of the queues and of the cluster. `unanswered`: the number of
    objects with a write that has no response yet. `unsent`: how many of these writes still wait for a free connection.
    `breaches`: the number of decisions that violated an invariant. `others`: metrics under the names of the other
    schedulers whose APIs (dialects) are enabled."""

    decisions: Decisions
    standings: Callable[[], Sequence[QueueStatus]]
    overview: Callable[[], ClusterStatus]
    unanswered: Callable[[], int]
    unsent: Callable[[], int]
    breaches: Callable[[], int]
    others: Callable[[], Iterable[MetricFamily]] = lambda: ()


class Scheduler(Collector):
    """The metrics of one scheduler process. `lead_s`: a function that returns the seconds for which the process still
    holds the Lease; 0 for a standby. `leader`: the data for the metrics that only the leader has; None until this
    process has become the leader."""

    def __init__(self, tally: Tally, lead_s: Callable[[], float] = lambda: inf) -> None:
        self.leader: Leader | None = None
        self._tally, self._lead_s = tally, lead_s

    @property
    def leads(self) -> bool:
        return self._lead_s() > 0

    def collect(self) -> Iterator[Metric]:
        yield Gauge("phalanx_leader", "1 if this process leads, 0 if it is on standby.", float(self.leads))
        yield build_info()
        yield from _calls(self._tally)
        if self.leader is not None:
            yield from _decisions(self.leader.decisions)
            yield from _cycles(self.leader)
            yield from _queues(self.leader.standings())
            yield from _cluster(self.leader.overview())
            yield from map(shown, self.leader.others())


def registry(own: Collector) -> CollectorRegistry:
    """Return a registry with the collector `own` and the metrics of the process (`process_*`, `python_gc_*`)."""
    from prometheus_client import GCCollector, ProcessCollector

    found = CollectorRegistry(auto_describe=False)
    found.register(own)
    ProcessCollector(registry=found)
    GCCollector(registry=found)
    return found


def build_info() -> Metric:
    found = Gauge("phalanx_build_info", "Always 1; the label is the version that runs.", labels=("version",))
    found.add_metric((__version__,), 1.0)
    return found


def _calls(tally: Tally) -> Iterator[Metric]:
    calls = Counter("phalanx_api_calls", "Calls to the API server; code 0: no response.", labels=(*_CALL, "code"))
    for call, codes in list(tally.calls.items()):
        for code, count in codes.items():
            calls.add_metric((*call, str(code)), count)
    yield calls
    seconds = Histogram("phalanx_api_call_seconds", "Time of calls, without watches.", labels=_CALL)
    for call, spread in list(tally.seconds.items()):
        add_spread(seconds, call, spread)
    yield seconds
    yield Gauge("phalanx_api_calls_in_flight", "Calls without a response yet.", tally.in_flight)
    fills = Counter("phalanx_cache_lists", "Complete lists that filled a cache.", labels=_CALL[1:])
    for call, count in tally.fills.items():
        fills.add_metric(call[1:], count)
    yield fills
    watches = Counter("phalanx_watches", "Watches that the server accepted.", labels=_CALL[1:])
    for call, codes in list(tally.calls.items()):
        if call.verb == "watch":
            watches.add_metric(call[1:], codes[200])
    yield watches


def _decisions(decisions: Decisions) -> Iterator[Metric]:
    made = Counter("phalanx_decisions", "Decisions, by action and queue.", labels=("action", "queue"))
    for said, count in decisions.made.items():
        made.add_metric(said, count)
    yield made
    pods = Counter("phalanx_pods_placed", "Pods that got a node.", labels=("queue",))
    for queue, count in decisions.pods.items():
        pods.add_metric((queue,), count)
    yield pods
    refused = Counter("phalanx_starts_refused", "Starts that failed and were undone.", labels=("reason",))
    for code, count in decisions.refused.items():
        refused.add_metric((code,), count)
    yield refused
    ended = Counter("phalanx_jobs_ended", "Jobs that ended.", labels=("outcome", "queue"))
    for said, count in decisions.ended.items():
        ended.add_metric(said, count)
    yield ended
    waited = Histogram("phalanx_job_wait_seconds", "Wait of jobs until their start.", labels=("queue",))
    for queue, spread in decisions.waited_s.items():
        add_spread(waited, (queue,), spread)
    yield waited


def _cycles(leader: Leader) -> Iterator[Metric]:
    cycles = Histogram("phalanx_cycle_seconds", "Time of each phase of a cycle.", labels=("phase",))
    for phase, spread in leader.decisions.cycle_s.items():
        add_spread(cycles, (phase,), spread)
    yield cycles
    yield Gauge("phalanx_writes_unanswered", "Objects with a write that has no response yet.", leader.unanswered())
    yield Gauge("phalanx_writes_unsent", "Objects with a write that is not sent yet.", leader.unsent())
    breaches = Counter("phalanx_invariant_breaches", "Decisions that broke an invariant: defects of Phalanx.")
    breaches.add_metric((), leader.breaches())
    yield breaches


def _queues(standings: Sequence[QueueStatus]) -> Iterator[Metric]:
    jobs = Gauge(
        "phalanx_queue_jobs", "Jobs of the queue and of all queues below it, by state.", labels=("queue", "state")
    )
    share = Gauge("phalanx_queue_share", "Weighted dominant share of the queue among its siblings.", labels=("queue",))
    used = Gauge("phalanx_queue_used", "Use of the queue and all queues below it: cores, bytes, units.", labels=_QUOTA)
    guaranteed = Gauge("phalanx_queue_guaranteed", "Guaranteed amounts of the queue.", labels=_QUOTA)
    limit = Gauge("phalanx_queue_limit", "Limits of the queue.", labels=_QUOTA)
    for standing in standings:
        jobs.add_metric((standing.queue, "pending"), standing.pending)
        jobs.add_metric((standing.queue, "running"), standing.running)
        share.add_metric((standing.queue,), standing.share)
        for one in standing.usage:
            key = (standing.queue, one.flavor, one.resource)
            used.add_metric(key, plain(one.resource, one.used))
            if one.guaranteed is not None:
                guaranteed.add_metric(key, plain(one.resource, one.guaranteed))
            if one.limit is not None:
                limit.add_metric(key, plain(one.resource, one.limit))
    yield from (jobs, share, used, guaranteed, limit)


def _cluster(seen: ClusterStatus) -> Iterator[Metric]:
    waiting = Gauge(
        "phalanx_waiting_jobs", "Pending jobs, by the code of their reason (none: new).", labels=("reason",)
    )
    for code, count in seen.waiting.items():
        waiting.add_metric((code,), count)
    yield waiting
    nodes = Gauge("phalanx_nodes", "Nodes, by whether they accept pods.", labels=("ready",))
    nodes.add_metric(("true",), seen.ready)
    nodes.add_metric(("false",), seen.nodes - seen.ready)
    yield nodes
    yield Gauge("phalanx_nodes_overfull", "Ready nodes whose pods hold more than the node has.", seen.overfull)
    for name, words, amounts in (
        ("phalanx_nodes_allocatable", "Allocatable amounts of the ready nodes: cores, bytes, units.", seen.allocatable),
        ("phalanx_nodes_free", "Free amounts of the ready nodes.", seen.free),
    ):
        family = Gauge(name, words, labels=("resource",))
        for resource, amount in amounts.items():
            family.add_metric((resource,), plain(resource, amount))
        yield family


def shown(family: MetricFamily) -> Metric:
    """Convert a family of `client.tally` to a metric of the Prometheus library."""
    if family.type == "histogram":
        spreads = Histogram(family.name, family.words, labels=family.labels)
        for key, spread in family.series.items():
            if isinstance(spread, Spread):
                add_spread(spreads, key, spread)
        return spreads
    found = (Counter if family.type == "counter" else Gauge)(family.name, family.words, labels=family.labels)
    for key, amount in family.series.items():
        if not isinstance(amount, Spread):
            found.add_metric(key, amount)
    return found


def plain(resource: str, amount: Amount) -> float:
    """Return the amount in the base unit of Prometheus: cores for cpu, otherwise bytes or a number of devices."""
    return float(amount / 1000) if resource == CPU else float(amount)


def add_spread(family: Histogram, labels: Sequence[str], spread: Spread) -> None:
    buckets, below = [], 0
    for bound, count in zip((*spread.bounds, inf), spread.counts, strict=True):
        below += count
        buckets.append(("+Inf" if bound == inf else repr(bound), float(below)))
    family.add_metric(list(labels), buckets, spread.total)


class PassedOn(Collector):
    """The metrics of the aggregated API server of `phalanx visibility`. `ends_s`: a function that returns the expiry of
    its certificate in seconds since the epoch; 0 if unknown."""

    def __init__(self) -> None:
        self.ends_s: Callable[[], float] = lambda: 0.0
        self._answered = Counts[int]()

    def count(self, code: int) -> None:
        """Count a response by its status code."""
        self._answered[code] += 1

    def collect(self) -> Iterator[Metric]:
        yield build_info()
        requests = Counter("phalanx_visibility_requests", "Answered requests.", labels=("code",))
        for code, count in self._answered.items():
            requests.add_metric((str(code),), count)
        yield requests
        yield Gauge(
            "phalanx_visibility_certificate_end_seconds",
            "Expiry of the certificate in seconds since the epoch; 0: unknown.",
            self.ends_s(),
        )
