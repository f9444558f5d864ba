"""Philly (Jeon et al., ATC'19), 82,247 jobs of 15 virtual clusters: nothing is published to compare with; policies
beside each other, on so few GPUs that jobs wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from study import HERE, Cell, Figures, Row, Study, trace

from phalanx import loop
from phalanx.cli.files.policy_file import setup_of
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.readers import philly
from phalanx.simulator.run.play import play as simulate
from phalanx.simulator.workload import gpu_nodes

TABLE = "philly.csv.gz"
NODES = 60  # of eight GPUs: three quarters of them are busy on average
POLICIES = {
    "fifo": ("fifo", "user"),
    "fair share, preempting": (str(HERE / "philly-fair.yaml"), "user"),
    "backfill, limits twice the run time": ("easy", "exact-x2"),
}
FIGURES = ("mean_jct_s", "p99_jct_s", "mean_wait_s", "jain_fairness", "share_gap", "mean_finish_time_fairness")


def play(policy: str) -> Figures:
    setup, estimates = POLICIES[policy]
    workload = replace(philly.read(trace(TABLE)), nodes=gpu_nodes(NODES, 8))
    found = measure(simulate(workload, setup_of(setup), loop.step, estimates=estimates))
    return {name: found[name] for name in (*FIGURES, "utilisation", "restarts", "unfinished", "wall_s")}


def rows(of: Callable[..., Figures | None]) -> Iterator[Row]:
    for figure in (*FIGURES, "utilisation", "restarts"):
        for policy in POLICIES:
            figures = of(policy=policy)
            ours = None if figures is None or figure not in figures else figures[figure]
            yield Row(f"{figure}, {policy}", ours, digits=0 if figure.endswith("_s") else 3)


CELLS = [Cell("philly", {"policy": policy}, (TABLE,), slow=True) for policy in POLICIES]
STUDY = Study("philly", f"Philly, 82,247 jobs on {NODES * 8} GPUs", CELLS, play, rows)
