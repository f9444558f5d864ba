"""A job as a row of `phalanx jobs`. Pure."""

from __future__ import annotations

from phalanx.cli.terminal.output import amounts_text, duration
from phalanx.cli.views.expected_start import said
from phalanx.cli.views.job_view import RUNS, JobView
from phalanx.model.reason import StartForecast

COLUMNS = ("JOB", "QUEUE", "STATE", "PODS", "SINCE", "WHERE, OR WHY NOT")
GIVES_WAY = ("SINCE", "QUEUE")
WIDE = ("JOB", "USER", "QUEUE", "STATE", "PODS", "GPUS", "EACH POD", "SINCE", "LEFT", "EXPECTED", "WHERE, OR WHY NOT")
WIDE_GIVES_WAY = ("EACH POD", "SINCE", "USER", "QUEUE", "LEFT", "GPUS", "EXPECTED")


def short_row(view: JobView, now_s: float, *, with_namespace: bool, expected: StartForecast | None = None) -> list[str]:
    """Return the cells of `COLUMNS`."""
    start = f"{said(expected, now_s)}; " if expected is not None else ""
    return [
        view.title if with_namespace else view.name,
        view.queue,
        view.state,
        f"{view.placed}/{view.wanted}",
        duration(now_s - view.since_s),
        start + view.where(),
    ]


def wide_row(view: JobView, now_s: float, *, with_namespace: bool, expected: StartForecast | None = None) -> list[str]:
    """Return the cells of `WIDE`."""
    name, queue, state, pods, since, where = short_row(view, now_s, with_namespace=with_namespace)
    start = said(expected, now_s).removeprefix("expected ") if expected is not None else ""
    each = "; ".join(dict.fromkeys(amounts_text(role.shape.requests) for role in view.roles))
    return [name, view.user, queue, state, pods, str(view.gpus or ""), each, since, _left(view, now_s), start, where]


def _left(view: JobView, now_s: float) -> str:
    """Return the time that the job may still run; its time limit if it does not run."""
    if view.limit_s is None:
        return ""
    return duration(view.since_s + view.limit_s - now_s if view.state in RUNS else view.limit_s)
