"""Run all controllers in one event loop, with shared caches.

A controller decides nothing until each cache that it reads has been filled from the API server. Otherwise a Job whose
pods are not in the cache yet would get new pods.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

from phalanx.client.connection import Connection
from phalanx.client.kind import (
    CRDS,
    DISRUPTION_BUDGETS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from phalanx.embedded.controllers.disruption import DisruptionController
from phalanx.embedded.controllers.job.controller import JobController, JobSettings
from phalanx.embedded.controllers.lifetime.garbage import GarbageCollector
from phalanx.embedded.controllers.lifetime.namespace import AccountController, NamespaceController
from phalanx.embedded.controllers.lifetime.pod_gc import PodCollector, TtlController
from phalanx.embedded.controllers.lifetime.pod_group_protection import PodGroupProtection
from phalanx.embedded.controllers.nodes import GRACE_S, NodeHealth, TaintEviction
from phalanx.embedded.controllers.operators.appwrapper.controller import AppWrapperController, Wrapping
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.controllers.operators.job_set.controller import JobSetController
from phalanx.embedded.controllers.operators.mpi_job.controller import MPIJobController
from phalanx.embedded.controllers.operators.profiles import ProfileController, Profiles
from phalanx.embedded.controllers.operators.train_job.controller import TrainJobController
from phalanx.embedded.controllers.operators.training.controller import TrainingController
from phalanx.embedded.controllers.operators.volcano.commands import CommandController, QueueController
from phalanx.embedded.controllers.operators.volcano.controller import VolcanoJobController
from phalanx.embedded.controllers.operators.volcano.flows import CRONS, JobFlowController
from phalanx.embedded.controllers.operators.volcano.pod_groups import PodGroupController
from phalanx.embedded.controllers.runtime.calls import Calls, Clock, Informers
from phalanx.embedded.controllers.runtime.pod_state import OwnerPodIndex
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler
from phalanx.embedded.controllers.runtime.recorder import EventRecorder, marking
from phalanx.embedded.controllers.workloads.cron_job import CronJobController
from phalanx.embedded.controllers.workloads.deployment import DeploymentController
from phalanx.embedded.controllers.workloads.endpoints import ServiceController
from phalanx.embedded.controllers.workloads.replica_set import ReplicaSetController, ReplicationControllerController
from phalanx.embedded.controllers.workloads.stateful_set import StatefulSetController
from phalanx.embedded.controllers.workloads.volume_binding import VolumeBinding
from phalanx.embedded.controllers.workloads.volume_protection import VolumeProtection
from phalanx.embedded.endless import endless

_NEEDED: tuple[Kind, ...] = (
    *(PODS, JOBS, NAMESPACES, NODES, LEASES, DISRUPTION_BUDGETS, CRDS, VOLUME_CLAIMS, VOLUMES),
    POD_GROUPS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of all controllers. `in_flight`: the maximum number of simultaneous calls of all controllers
    together. `events_window_s`: the time for which Events are gathered. `namespace_again_s`: the interval between two
    checks of a terminating namespace. `node_grace_s`: the time without a renewal of its Lease after which a node is
    lost. `most_finished_pods`: the number of finished pods above which the oldest are deleted. `root_ca`: the
    certificate of the API's authority (PEM), which is published to pods; "": none is published. `volumes_dir`: the
    folder in which volumes are created for claims; None: no volumes are created. `wrappings`: the facts about each kind
    of AppWrapper that the controllers run. `profiles`: the kind of profiles that change new pods; None: there is
    none."""

    in_flight: int = 64
    events_per_s: float = 100.0
    events_window_s: float = 1.0
    namespace_again_s: float = 1.0
    node_grace_s: float = GRACE_S
    node_period_s: float = 5.0
    most_finished_pods: int = 12_500
    root_ca: str = ""
    volumes_dir: Path | None = None
    job: JobSettings = field(default_factory=JobSettings)
    wrappings: tuple[Wrapping, ...] = ()
    profiles: Profiles | None = None


async def run_controllers(
    connection: Connection, informers: Informers, settings: Settings | None = None, clock: Clock = time.time
) -> None:
    """Run the controllers until cancelled. `informers(kind)` returns the running, shared cache of a kind. It is called
    at once for the kinds that controllers read, and later for every other built-in kind that the server serves."""
    settings = settings or Settings()
    await install_operators(connection)
    calls = Calls(connection, informers, in_flight=settings.in_flight)
    recorder = EventRecorder(calls, window_s=settings.events_window_s, writes_per_s=settings.events_per_s, clock=clock)
    index = OwnerPodIndex()
    calls.cache(PODS).subscribe(index.take)  # subscribed first, because later subscribers read the index
    job_index = OwnerPodIndex()
    calls.cache(JOBS).subscribe(job_index.take)
    jobs = JobController(calls, index, recorder, settings.job, clock)
    namespaces = NamespaceController(calls, again_s=settings.namespace_again_s, clock=clock)
    accounts = AccountController(calls, settings.root_ca)
    ttl = TtlController(calls, clock=clock)
    garbage = GarbageCollector(connection, calls)
    budgets = DisruptionController(calls, recorder, clock=clock)
    nodes = NodeHealth(calls, recorder, grace_s=settings.node_grace_s, period_s=settings.node_period_s, clock=clock)
    evictions = TaintEviction(calls, recorder, clock=clock)
    protection, groups = VolumeProtection(calls), PodGroupProtection(calls)
    retry = settings.job.retry
    context = ControllerContext(calls=calls, recorder=recorder, pods=index, jobs=job_index, retry=retry, clock=clock)
    loops: list[Reconciler | VolumeBinding] = [*_loops(context)]
    loops.append(VolumeBinding(calls, recorder, settings.volumes_dir, retry=retry))
    loops += [AppWrapperController(context, wrapping) for wrapping in settings.wrappings]
    if settings.profiles is not None:
        loops.append(ProfileController(context, settings.profiles))
    others = (namespaces, accounts, ttl, budgets, nodes, evictions, protection, groups)
    for controller in (jobs, *others):
        controller.start()
    for loop in loops:
        loop.start()
    leftovers = PodCollector(calls, most_finished=settings.most_finished_pods, clock=clock)
    about = {JOBS: (jobs.queues[0], ttl.queue), NAMESPACES: (namespaces.queue,), NODES: (nodes.queue,)}
    about |= {DISRUPTION_BUDGETS: (budgets.queue,), PODS: (evictions.queue,)}
    for kind, queues in about.items():
        for queue in queues:
            queue.on_defect = marking(recorder, calls.cache(kind))
    await asyncio.gather(*(calls.cache(kind).synced.wait() for kind in _NEEDED))
    async with asyncio.TaskGroup() as group:
        for queue in (*jobs.queues, *(controller.queue for controller in others)):
            group.create_task(queue.run())
        for loop in loops:
            group.create_task(loop.run())
        endlessly = {"events": recorder.run, "garbage": garbage.run, "nodes": nodes.watch, "old pods": leftovers.run}
        for name, run in endlessly.items():
            group.create_task(endless(name, run))


def _loops(context: ControllerContext) -> tuple[Reconciler, ...]:
    """Return the controllers that reconcile one kind each. A kind that is not served yet does not delay the others."""
    volcano = VolcanoJobController(context)
    return (
        CronJobController(context),
        ReplicaSetController(context),
        ReplicationControllerController(context),
        DeploymentController(context),
        StatefulSetController(context),
        ServiceController(context),
        TrainingController(context),
        volcano,
        CommandController(context, volcano.command),
        JobSetController(context),
        MPIJobController(context),
        TrainJobController(context),
        QueueController(context),
        PodGroupController(context),
        JobFlowController(context),
        CronJobController(context, CRONS),
    )
