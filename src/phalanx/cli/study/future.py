"""Simulate a copy of the cluster state, and compute when its waiting jobs are expected to start.

`phalanx whatif` and `phalanx queue --dry-run` simulate the state with and without the changes."""

from __future__ import annotations

import time
from collections.abc import Mapping

from phalanx import loop
from phalanx.kube.gang.effects import GangTimeouts
from phalanx.model.job import Phase
from phalanx.model.reason import StartForecast
from phalanx.report.forecast import forecast
from phalanx.simulator.run.forward import Assumptions, Future, forward
from phalanx.state.cluster import Cluster, time_limit_s

MANY_JOBS = 1000  # with more pending jobs, expected starts are not computed
PATIENCE_S = 60.0  # the maximum computing time of each of the two simulations


def expected_starts(cluster: Cluster, now_s: float) -> Mapping[str, StartForecast]:
    """Return the expected start of each waiting job, computed from the run times of past jobs instead of time limits.
    The result is empty if no run times of past jobs are known, or if more than `MANY_JOBS` jobs wait."""
    waiting = [job for job, record in cluster.jobs.items() if record.phase is Phase.QUEUED]
    if not cluster.ends.run_times or len(waiting) > MANY_JOBS:
        return {}
    found = forecast(cluster, cluster.policy, now_s, waiting)
    return {job: each for job, each in found.items() if each.start_s > now_s}


def played(cluster: Cluster, horizon_s: float, run_s: float) -> Future:
    """Simulate the cluster up to the horizon, beginning with the state `cluster`, and return the result. The simulation
    changes `cluster`."""
    assumptions = Assumptions(
        limit_s=lambda job: time_limit_s(cluster, job), run_s=run_s, patience_s=GangTimeouts().place_s
    )
    now_s, give_up_s = cluster.now_s, time.monotonic() + PATIENCE_S
    return forward(
        cluster,
        cluster.policy,
        loop.step,
        now_s=now_s,
        until_s=now_s + horizon_s,
        assumptions=assumptions,
        patient=lambda: time.monotonic() < give_up_s,
    )
