"""The numbers that the cluster tells a user about an own job, where the user may not list the jobs of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phalanx.cli.terminal.output import counted
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


def record(numbers: Object) -> dict[str, Any]:
    """Return the numbers for `--json`."""
    return {name: numbers[name] for name in ("position", "waiting", "ahead", "own", "expectedStart") if name in numbers}


def _demand(found: Object) -> str:
    if not found["jobs"]:
        return "no job"
    amounts = ", ".join(f"{amount} {name}" for name, amount in found["amounts"].items())
    return f"{counted(found['jobs'], 'job')}, {counted(found['pods'], 'pod')}" + (f" ({amounts})" if amounts else "")
