"""What an aggregated API server counts, and shows to Prometheus: requests by the code of their answer, and until when
its certificate is valid."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily as Counter
from prometheus_client.metrics_core import GaugeMetricFamily as Gauge
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from phalanx.metrics.collector import build_info


class PassedOn(Collector):
    """`ends_s`: when the certificate that is served ends, in seconds since the epoch; 0: not known."""

    def __init__(self) -> None:
        self.ends_s: Callable[[], float] = lambda: 0.0
        self._answered = Counts[int]()

    def count(self, code: int) -> None:
        """Count an answer."""
        self._answered[code] += 1

    def collect(self) -> Iterator[Metric]:
        yield build_info()
        requests = Counter("phalanx_visibility_requests", "Requests that were answered.", labels=("code",))
        for code, count in self._answered.items():
            requests.add_metric((str(code),), count)
        yield requests
        yield Gauge(
            "phalanx_visibility_certificate_end_seconds",
            "When the certificate ends, since the epoch; 0: not known.",
            self.ends_s(),
        )
