"""How well expected starts hold: a log is played under a policy, jobs that have to wait are forecast when they are
submitted, and the forecast is compared with when they started.

Prints JSON, for the forecast by what was learned and for the latest start by time limits: the relative error of the
wait (|forecast - true| / true; median, p90), the part forecast too late, and the part of the starts within the
intervals. Jobs that waited less than --least seconds are left out: their relative error says nothing.

    python benchmarks/forecast.py
    python benchmarks/forecast.py --trace other.swf --policy fifo --every 20
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
from phalanx.cli.files.setup_file import setup_of
from phalanx.cli.study.simulation.cells import Source, workload_of
from phalanx.model.event import Event, Submitted
from phalanx.model.job import Phase
from phalanx.model.plan import Plan
from phalanx.model.policy import Policy
from phalanx.model.reason import StartForecast
from phalanx.report.forecast import PLAYS, forecast
from phalanx.simulator.run.play import play
from phalanx.simulator.run.stopwatch import Applier
from phalanx.state.cluster import Cluster

TRACE = Path(__file__).parent / "traces" / "KTH-SP2-filtered.swf.gz"


@dataclass(slots=True)
class Asking:
    """The scheduler; of the jobs that wait when they are submitted, every `every`th is forecast."""

    every: int
    plays: int
    found: dict[str, tuple[float, StartForecast]]
    waited: int = 0
    took_s: float = 0.0

    def step(self, cluster: Cluster, events: Sequence[Event], policy: Policy, now_s: float, world: Applier) -> Plan:
        plan = loop.step(cluster, events, policy, now_s, world)
        for event in events:
            if isinstance(event, Submitted) and (record := cluster.jobs.get(event.job.id)) is not None:
                if record.phase is not Phase.QUEUED:
                    continue
                self.waited += 1
                if self.waited % self.every == 0:
                    began_s = time.process_time()
                    found = forecast(cluster, policy, now_s, [event.job.id], self.plays)
                    self.took_s += time.process_time() - began_s
                    if event.job.id in found:
                        self.found[event.job.id] = now_s, found[event.job.id]
        return plan


def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    source = Source(
        trace=arguments.trace, processors=arguments.processors, first=arguments.first, cluster=arguments.cluster
    )
    asking = Asking(arguments.every, arguments.plays, {})
    schedule = play(workload_of(source, 0), setup_of(arguments.policy), asking.step)
    starts = {fate.task.job.id: fate.start_s for fate in schedule.fates}
    rows = []
    for job, (now_s, each) in asking.found.items():
        start_s = starts[job]
        if start_s is not None and start_s - now_s >= arguments.least:
            times = (each.start_s, *each.likely_s, *each.nearly_sure_s, each.latest_s)
            rows.append((start_s - now_s, *(at_s - now_s for at_s in times)))
    waits = np.array(rows).T
    return {
        "trace": arguments.trace.name,
        "policy": arguments.policy,
        "jobs": len(schedule.fates),
        "waited": asking.waited,
        "forecast": len(asking.found),
        "compared": len(rows),
        "median_wait_s": float(np.median(waits[0])),
        "learned": errors(waits[0], waits[1]),
        "limits": errors(waits[0], waits[6]),
        "within_50": within(waits[0], waits[2], waits[3]),
        "within_90": within(waits[0], waits[4], waits[5]),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--cluster", default="", help="as for phalanx simulate")
    parser.add_argument("--processors", type=int)
    parser.add_argument("--first", type=int, help="so many jobs")
    parser.add_argument("--policy", default="easy")
    parser.add_argument("--every", type=int, default=10, help="of the jobs that wait, one in so many is forecast")
    parser.add_argument("--plays", type=int, default=PLAYS)
    parser.add_argument("--least", type=float, default=60.0, help="seconds")
    print(json.dumps(measured(parser.parse_args()), indent=1))


if __name__ == "__main__":
    main()
