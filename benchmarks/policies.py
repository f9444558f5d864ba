"""Policies against each other, on jobs that no search has seen: mean bounded slowdown, longest wait, fairness.

Each log is cut at 70 % of its jobs; the last 30 % are played, by themselves, under built-in policies and under those of
`examples/simulate`, which were searched by `phalanx simulate --tune` on the first parts of KTH-SP2 and Philly. A policy
*wins* on a log if no other is better there in both mean bounded slowdown and longest wait.

One JSON object a line, for each log and policy; `beaten_by`: those that are better in both.

    python benchmarks/policies.py [--logs kth-sp2 philly lab muri-1 FILE.swf ...] [--policy easy fair hpc-site ...]

Logs are those of `benchmarks/traces`, or files of one's own; policies are built in, of `examples/simulate`, or files.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from phalanx.cli.study.simulation.cells import Cell, run_all
from phalanx.cli.study.simulation.trace_source import TraceSource, workload_of
from phalanx.cli.terminal.progress import progress_bar

ROOT = Path(__file__).parents[1]
TRACES = ROOT / "benchmarks" / "traces"
SEARCHED = 0.7
LOGS = {
    "kth-sp2": TraceSource(trace=TRACES / "KTH-SP2-filtered.swf.gz"),
    "philly": TraceSource(trace=TRACES / "philly.csv.gz", cluster="60x8", first=40_000),
    "lab": TraceSource(trace=TRACES / "philly.csv.gz", cluster="16x8", load=0.25, first=30_000),
    **{f"muri-{n}": TraceSource(trace=TRACES / f"muri_trace{n}.csv.gz", cluster="8x8") for n in range(1, 5)},
}
FOUND = {name: str(ROOT / "examples" / "simulate" / f"{name}.yaml") for name in ("hpc-site", "lab", "ai-cluster")}
POLICIES = ["fifo", "easy", "easy-sjbf", "easy-learned", "conservative", "saf", "f1", "fair", *FOUND]
MEAN, WAIT = "mean_bounded_slowdown", "max_wait_s"


def aside(source: TraceSource) -> tuple[TraceSource, int]:
    """The last part of the log, and how many jobs it has."""
    jobs = len(workload_of(source, 0).tasks)
    skip = round(jobs * SEARCHED)
    return replace(source, first=jobs, skip=skip), jobs - skip


def played(name: str, policies: Sequence[str], processes: int) -> list[dict[str, Any]]:
    source, jobs = aside(LOGS.get(name) or TraceSource(trace=Path(name)))
    cells = [Cell(source=source, policy=FOUND.get(each, each), estimates="user", seed=0) for each in policies]
    with progress_bar(jobs * len(cells)) as progress:
        found = [outcome.measures for outcome in run_all(cells, processes=processes, progress=progress)]
    rows = [
        {
            "log": Path(name).name,
            "policy": each["policy"],
            "jobs": each["jobs"],
            "unfinished": each["unfinished"],
            MEAN: round(each[MEAN], 2),
            WAIT: round(each[WAIT]),
            "jain_fairness": round(each["jain_fairness"], 3),
            "jobs_per_s": each["jobs_per_s"],
        }
        for each in found
    ]
    for row in rows:
        row["beaten_by"] = [other["policy"] for other in rows if is_better(other, row)]
    return rows


def is_better(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """In both, and in one of them really."""
    ours, theirs = (one[MEAN], one[WAIT]), (other[MEAN], other[WAIT])
    return ours != theirs and all(mine <= its for mine, its in zip(ours, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", nargs="+", default=list(LOGS), help=f"a file, or of {', '.join(LOGS)}")
    parser.add_argument("--policy", nargs="+", default=POLICIES)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    said = parser.parse_args()
    for name in said.logs:
        for row in played(name, said.policy, said.processes):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
