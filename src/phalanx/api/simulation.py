"""Run the simulations of `phalanx.simulate`, one after the other. The simulator is imported at the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from phalanx.api.values import Simulated, Table


def run_simulations(
    trace: Path, policies: Sequence[str], estimates: Sequence[str], first: int | None, cluster: str, seed: int
) -> Table[Simulated]:
    """Simulate the trace once for each pair of a policy and a kind of run time estimates. Raises PhalanxError."""
    from phalanx.cli.study.simulation.cells import Cell, run_all
    from phalanx.cli.study.simulation.results import rows_of
    from phalanx.cli.study.simulation.trace_source import TraceSource

    source = TraceSource(trace=trace, cluster=cluster, first=first)
    cells = [
        Cell(source=source, policy=policy, estimates=known, seed=seed) for policy in policies for known in estimates
    ]
    rows: list[Mapping[str, object]] = [*rows_of(list(run_all(cells, processes=1, progress=lambda jobs: None)))]
    return Table(
        [
            Simulated(trace=str(trace), policy=cell.policy, estimates=cell.estimates, measures=row)
            for cell, row in zip(cells, rows, strict=True)
        ]
    )
