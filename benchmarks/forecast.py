"""How well expected starts hold: a log is played under a policy, jobs that have to wait are forecast when they are
submitted, and the forecast is compared with when they started.

Prints JSON for each log and policy, for the forecast by what was learned and for the latest start by time limits: the
relative error of the wait (|forecast - true| / true; median, p90), the part forecast too late, the part of the starts
within the intervals, and after the end of the wider one. Jobs that waited less than --least seconds are left out: their
relative error says nothing. `--table` prints rows for docs/benchmarks/simulator.md instead.

    python benchmarks/forecast.py
    python benchmarks/forecast.py --trace other.swf --policy easy hpc-site --every 20 --table
    python benchmarks/forecast.py --after 0.6    # of the last 40 % of the jobs only
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from phalanx import loop
from phalanx.cli.files.policy_file import setup_of
from phalanx.cli.study.simulation.trace_source import TraceSource, workload_of
from phalanx.model.event import Event, Submitted
from phalanx.model.job import Phase
from phalanx.model.plan import Plan
from phalanx.model.policy import Policy
from phalanx.model.reason import StartForecast
from phalanx.report.forecast import forecast
from phalanx.simulator.readers.lines import OnError
from phalanx.simulator.run.play import TimedApplier, play
from phalanx.state.cluster import Cluster

ROOT = Path(__file__).parents[1]
TRACE = ROOT / "benchmarks" / "traces" / "KTH-SP2-filtered.swf.gz"


@dataclass(slots=True)
class Asking:
    """The scheduler, which also forecasts every `every`th job that waits when it is submitted. `left`: the number
    of submitted jobs that it passes over first."""

    every: int
    plays: int | None
    left: int
    found: dict[str, tuple[float, StartForecast]]
    waited: int = 0
    took_s: float = 0.0

    def step(
        self, cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: TimedApplier
    ) -> Plan:
        plan = loop.step(cluster, events, policy, now_s, world)
        for event in events:
            if isinstance(event, Submitted) and (record := cluster.jobs.get(event.job.id)) is not None:
                self.left -= 1
                if self.left >= 0 or record.phase is not Phase.QUEUED:
                    continue
                self.waited += 1
                if self.waited % self.every == 0:
                    began_s = time.process_time()
                    found = forecast(cluster, policy, now_s, [event.job.id], self.plays)
                    self.took_s += time.process_time() - began_s
                    if event.job.id in found:
                        self.found[event.job.id] = now_s, found[event.job.id]
        return plan


def measured(trace: Path, policy: str, said: argparse.Namespace) -> dict[str, Any]:
    source = TraceSource(
        trace=trace, processors=said.processors, first=said.first, cluster=said.cluster, on_error=OnError.SKIP
    )
    workload = workload_of(source, 0)
    asking = Asking(said.every, said.plays, round(said.after * len(workload.tasks)), {})
    named = ROOT / "examples" / "simulate" / f"{policy}.yaml"
    schedule = play(workload, setup_of(str(named) if named.exists() else policy), asking.step)
    starts = {fate.task.job.id: fate.start_s for fate in schedule.fates}
    rows = []
    for job, (now_s, each) in asking.found.items():
        start_s = starts[job]
        if start_s is not None and start_s - now_s >= said.least:
            times = (each.start_s, *each.likely_s, *each.nearly_sure_s, each.latest_s)
            rows.append((start_s - now_s, *(at_s - now_s for at_s in times)))
    waits = np.array(rows).T
    return {
        "trace": trace.name,
        "policy": Path(policy).stem,
        "jobs": len(schedule.fates),
        "waited": asking.waited,
        "forecast": len(asking.found),
        "compared": len(rows),
        "median_wait_s": float(np.median(waits[0])),
        "learned": errors(waits[0], waits[1]),
        "limits": errors(waits[0], waits[6]),
        "within_50": within(waits[0], waits[2], waits[3]),
        "within_90": within(waits[0], waits[4], waits[5]),
        "after_90": round(float((waits[0] > waits[5]).mean()), 3),
        "median_width_50": round(float(np.median((waits[3] - waits[2]) / waits[0])), 3),
        "s_per_forecast": round(asking.took_s / max(1, len(asking.found)), 4),
    }


def errors(true_s: np.ndarray, told_s: np.ndarray) -> dict[str, float]:
    known = told_s < inf
    relative = np.abs(told_s[known] - true_s[known]) / true_s[known]
    if not known.any():
        return {"unknown": 1.0}
    return {
        "median_relative_error": round(float(np.median(relative)), 3),
        "p90_relative_error": round(float(np.percentile(relative, 90)), 3),
        "too_late": round(float((told_s[known] > true_s[known]).mean()), 3),
        "unknown": round(float(1 - known.mean()), 3),
    }


def within(true_s: np.ndarray, from_s: np.ndarray, to_s: np.ndarray) -> float:
    return round(float(((from_s <= true_s) & (true_s <= to_s)).mean()), 3)


def row(found: dict[str, Any]) -> str:
    """The same as a row of the table in docs/benchmarks/simulator.md."""
    cells = [found["trace"], found["policy"], f"{found['compared']:,}"]
    for each in (found["limits"], found["learned"]):
        known = "median_relative_error" in each
        cells.append(
            f"{each['median_relative_error']:.2f}, {each['p90_relative_error']:.1f}, {each['too_late']:.0%}"
            if known
            else "none"
        )
    cells += [f"{found[name]:.0%}" for name in ("within_50", "within_90", "after_90")]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, nargs="+", default=[TRACE])
    parser.add_argument("--cluster", default="", help="as for phalanx simulate")
    parser.add_argument("--processors", type=int)
    parser.add_argument("--first", type=int, help="so many jobs")
    parser.add_argument("--after", type=float, default=0.0, help="jobs after that part of the log, for instance 0.6")
    parser.add_argument("--policy", nargs="+", default=["easy"], help="built in, of examples/simulate, or files")
    parser.add_argument("--every", type=int, default=10, help="of the jobs that wait, one in so many is forecast")
    parser.add_argument("--plays", type=int, help="default: as many as the size of the cluster allows")
    parser.add_argument("--least", type=float, default=60.0, help="seconds")
    parser.add_argument("--table", action="store_true", help="rows of a Markdown table instead of JSON")
    said = parser.parse_args()
    for trace in said.trace:
        for policy in said.policy:
            found = measured(trace, policy, said)
            print(row(found) if said.table else json.dumps(found, indent=1), flush=True)


if __name__ == "__main__":
    main()
