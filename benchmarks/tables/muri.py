"""SRTF and SRSF as the baselines of Muri (Zhao et al., SIGCOMM'22, figure 9): 64 GPUs, four traces derived from
Philly's, as submitted and (`_pr`) all at once. Published: the raw numbers beside the artifact's figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import mean

from study import Cell, Figures, Row, Study, trace

from phalanx import loop
from phalanx.simulator.readers import muri
from phalanx.simulator.run.play import play as simulate
from phalanx.simulator.run.setup import built_in
from phalanx.simulator.workload import gpu_nodes

TRACES = ("trace1", "trace1_pr", "trace2", "trace2_pr", "trace3", "trace3_pr", "trace4", "trace4_pr")
QUICK = ("trace3", "trace3_pr")
MEAN_JCT_S = {
    "srtf": (1370603.198, 2303543.816, 2665607.375, 4079154.454, 193081.796, 844394.78, 581982.9002, 1430856.446),
    "srsf": (980140.5699, 1801859.995, 2213949.687, 3384600.437, 185021.8802, 798057.6829, 487167.1688, 1218501.968),
}
MAKESPAN_S = {
    "srtf": (26045465.53, 24513543.94, 48847005.20, 48697595.00, 8174135.28, 7261795.83, 14787990.59, 14272665.01),
    "srsf": (26065759.04, 24272529.59, 49026465.31, 47972347.55, 8174135.28, 6907790.40, 14887908.87, 14426755.37),
}


def file_of(name: str) -> str:
    return f"muri_{name}.csv.gz"


def play(policy: str, name: str) -> Figures:
    workload = replace(muri.read(trace(file_of(name))), nodes=gpu_nodes(8, 8))
    schedule = simulate(workload, built_in(policy), loop.step)
    ends = [(fate.end_s, fate.task.job.submitted_s) for fate in schedule.fates if fate.end_s is not None]
    return {
        "mean_jct_s": mean(end_s - submitted_s for end_s, submitted_s in ends),
        "makespan_s": max(end_s for end_s, _ in ends),
        "unfinished": len(schedule.fates) - len(ends),
        "wall_s": schedule.wall_s,
    }


def rows(of: Callable[..., Figures | None]) -> Iterator[Row]:
    for figure, published in (("mean_jct_s", MEAN_JCT_S), ("makespan_s", MAKESPAN_S)):
        for policy, values in published.items():
            for name, value in zip(TRACES, values, strict=True):
                figures = of(policy=policy, name=name)
                ours = None if figures is None else figures[figure]
                yield Row(f"{figure}, {policy}, {name}", ours, value, within=0.03, digits=0)


CELLS = [
    Cell("muri", {"policy": policy, "name": name}, (file_of(name),), slow=name not in QUICK)
    for policy in MEAN_JCT_S
    for name in TRACES
]
STUDY = Study("muri", "Muri's baselines, SIGCOMM'22: seconds, 64 GPUs", CELLS, play, rows)
