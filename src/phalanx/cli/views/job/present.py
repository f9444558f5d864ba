"""Wrap the scheduler's present state in a snapshot, from which the rows and pages of jobs are computed.

`ServedViews` calls `snapshot` for each response that it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.client.informer import Informer
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.model.job import Phase
from phalanx.model.plan import Nominate, Plan, Wait
from phalanx.model.reason import StartForecast
from phalanx.state.cluster import Cluster, nominated_placements


class PresentState:
    """The state of one scheduler. `now_s`: a function that returns the present time. `starts`: a function that returns
    job id -> expected start (seconds since the epoch), for jobs with a known expected start."""

    def __init__(
        self,
        cluster: Cluster,
        world: KubeWorld,
        informers: Callable[[Kind], Informer],
        now_s: Callable[[], float],
        starts: Callable[[], Mapping[str, float]],
    ) -> None:
        self._cluster, self._world, self._informers = cluster, world, informers
        self._now_s, self._starts = now_s, starts

    def snapshot(self) -> Snapshot:
        """Return a snapshot that refers to the scheduler's present state. The state is not copied. The caller must use
        it before the scheduler changes the state."""
        cluster, now_s = self._cluster, self._now_s()
        waiting = (job for job, record in cluster.jobs.items() if record.phase is Phase.QUEUED or record.open)
        waits = [Wait(job, reason) for job in waiting if (reason := cluster.reason(job)) is not None]
        promised = [Nominate(job, nominated_placements(cluster.jobs[job])) for job in cluster.nominated]
        kinds = (JOBS, PODS, NODES, QUEUES, *self._world.caches.served)
        starts = self._starts()
        return Snapshot(
            cluster=cluster,
            events=(),
            plan=Plan(actions=(*promised, *waits)),
            gangs=self._world.gangs,
            objects={kind: self._informers(kind).objects for kind in kinds},
            wrong=self._world.queues.wrong,
            now_s=now_s,
            starts={job: _at(start_s) for job, start_s in starts.items() if job in cluster.jobs},
            reading=(self._world.caches.admission, self._world.watch.defaults),
        )


def _at(start_s: float) -> StartForecast:
    moment = (start_s, start_s)
    return StartForecast(start_s=start_s, likely_s=moment, nearly_sure_s=moment, latest_s=inf)
