"""The metrics of an aggregated API server: requests by status code, and the expiry of its certificate."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily as Counter
from prometheus_client.metrics_core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from phalanx.metrics.collector import build_info


class PassedOn(Collector):
    """The metrics of one server. `ends_s`: returns the expiry of its certificate in seconds since the epoch; 0 if
    unknown."""

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
