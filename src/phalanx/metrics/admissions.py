"""What the webhook counts, and shows to Prometheus: reviews by their outcome, how long they took, and until when its
certificate is valid."""

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
    """`ends_s`: when the certificate that is served ends, in seconds since the epoch; 0: not known."""

    def __init__(self) -> None:
        self.ends_s: Callable[[], float] = lambda: 0.0
        self.unreadable = 0
        self._made: Counts[tuple[str, str, str]] = Counts()
        self._took = Spread(CALL_BOUNDS_S)

    def note(self, resource: str, operation: str, outcome: str, took_s: float) -> None:
        """Count an admission review. What anybody may send makes no labels of its own."""
        known = resource in _KNOWN and operation in _OPERATIONS
        self._made[(resource, operation, outcome) if known else ("other", "other", outcome)] += 1
        self._took.add(took_s)

    def collect(self) -> Iterator[Metric]:
        yield build_info()
        made = Counter("phalanx_admissions", "Reviews that were answered.", labels=("resource", "operation", "outcome"))
        for said, count in self._made.items():
            made.add_metric(said, count)
        yield made
        yield Counter("phalanx_admissions_unreadable", "Requests that were no review.", self.unreadable)
        took = Histogram("phalanx_admission_seconds", "How long judging a review took.", labels=())
        add_spread(took, (), self._took)
        yield took
        yield Gauge(
            "phalanx_webhook_certificate_end_seconds",
            "When the certificate ends, since the epoch; 0: not known.",
            self.ends_s(),
        )
