"""What the service counts, in Prometheus' form. No label holds an id, a name or a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counters of one service."""

    def __init__(self, gauges: Callable[[], Mapping[str, Mapping[str, float]]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Now(gauges))
        self._requests = Counter(
            "evigraph_http_requests", "Requests", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "evigraph_http_request_seconds",
            "Seconds until an answer began",
            ["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._submitted = Counter("evigraph_cases_submitted", "Cases submitted", registry=self._registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def submitted(self, cases: int) -> None:
        self._submitted.inc(cases)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Now(Collector):
    def __init__(self, gauges: Callable[[], Mapping[str, Mapping[str, float]]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, values in self._gauges().items():
            family = GaugeMetricFamily(
                f"evigraph_{name}", name.replace("_", " ").capitalize(), labels=["state"]
            )
            for state, value in values.items():
                family.add_metric([state], value)
            yield family
