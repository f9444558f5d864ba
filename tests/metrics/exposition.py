"""The exposition format, read back by Prometheus' own parser."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def series(text: str) -> Series:
    """(sample name, labels) -> value."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(url: str) -> Series:
    with urlopen(url, timeout=240) as answer:
        return series(answer.read().decode())


def value(found: Series, name: str, **labels: str) -> float:
    """Return the sum of all series of that name with at least these labels."""
    wanted = frozenset(labels.items())
    return sum(amount for (sample, said), amount in found.items() if sample == name and wanted <= said)


def has(found: Series, name: str) -> bool:
    return any(sample == name for sample, _ in found)
