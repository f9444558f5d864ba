"""The numbers that the cluster serves to a user about the user's own job, if the user may not list the jobs of
others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phalanx.cli.cluster.numbers.fetching import forecast_of
from phalanx.cli.terminal.output import counted
from phalanx.cli.views.job.expected_start import interval
from phalanx.client.connection import Object


def lines(numbers: Object) -> Iterator[str]:
    """Yield the lines of `phalanx explain`: the place in the queue, the demand ahead, and the user's own usage."""
    if position := numbers.get("position"):
        yield "place"
        yield f"  {position} of {numbers['waiting']} that wait in queue {numbers['queue']}"
        yield f"  ahead: {_demand(numbers['ahead'])}"
    yield "your jobs in this queue"
    yield f"  running: {_demand(numbers['own']['running'])}"
    yield f"  waiting: {_demand(numbers['own']['waiting'])}"


def page(numbers: Object, now_s: float) -> Iterator[str]:
    """Yield the page of `phalanx explain` about a job that the user may not read. `now_s`: since the epoch."""
    meta = numbers["metadata"]
    yield f"{meta['namespace']}/{meta['name']}: {numbers['state']}, in queue {numbers['queue']}"
    if (reason := numbers.get("reason")) is not None:
        yield "reason"
        yield f"  {reason['code']}: {reason['message']}"
    yield from lines(numbers)
    if (found := forecast_of(numbers)) is not None:
        yield "expected start"
        yield f"  {interval(found.likely_s, now_s)}"


def record(numbers: Object) -> dict[str, Any]:
    """Return the numbers as a record for `--json`."""
    return {name: numbers[name] for name in ("position", "waiting", "ahead", "own", "expectedStart") if name in numbers}


def _demand(found: Object) -> str:
    if not found["jobs"]:
        return "no job"
    amounts = ", ".join(f"{amount} {name}" for name, amount in found["amounts"].items())
    return f"{counted(found['jobs'], 'job')}, {counted(found['pods'], 'pod')}" + (f" ({amounts})" if amounts else "")
