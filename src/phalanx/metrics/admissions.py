"""The metrics of the admission webhook: the number and the duration of reviews, and the expiry of its certificate."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily as Counter
from prometheus_client.metrics_core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import HistogramMetricFamily as Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from phalanx.client.tally import CALL_BOUNDS_S, Spread
from phalanx.metrics.collector import add_spread, build_info

_KNOWN = frozenset({"jobs", "pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs"})
_OPERATIONS = frozenset({"CREATE", "UPDATE"})


class Admissions(Collector):
    """The metrics of one webhook. `ends_s`: a function that returns the expiry of its certificate in seconds since the
    epoch; 0 if unknown. `unreadable`: the number of requests that were not a valid review."""

    def __init__(self) -> None:
        self.ends_s: Callable[[], float] = lambda: 0.0
        self.unreadable = 0
        self._made: Counts[tuple[str, str, str]] = Counts()
        self._took = Spread(CALL_BOUNDS_S)

    def note(self, resource: str, operation: str, outcome: str, took_s: float) -> None:
        """Count an admission review. `took_s`: its duration. All unknown resources and operations are counted under the
        label `other`, so that clients cannot create more and more series."""
        known = resource in _KNOWN and operation in _OPERATIONS
        self._made[(resource, operation, outcome) if known else ("other", "other", outcome)] += 1
        self._took.add(took_s)

    def collect(self) -> Iterator[Metric]:
        yield build_info()
        made = Counter("phalanx_admissions", "Answered admission reviews.", labels=("resource", "operation", "outcome"))
        for said, count in self._made.items():
            made.add_metric(said, count)
        yield made
        yield Counter("phalanx_admissions_unreadable", "Requests that were not a valid review.", self.unreadable)
        took = Histogram("phalanx_admission_seconds", "Time to judge a review.", labels=())
        add_spread(took, (), self._took)
        yield took
        yield Gauge(
            "phalanx_webhook_certificate_end_seconds",
            "Expiry of the certificate in seconds since the epoch; 0: unknown.",
            self.ends_s(),
        )
