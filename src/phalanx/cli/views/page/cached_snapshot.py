"""Build a snapshot from cached objects. The state of the page is computed from this snapshot."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.cluster.live_state.decision import think, without_warnings
from phalanx.cli.files.policy_file import PolicySettings as Policies
from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.core.decide import decide
from phalanx.kube.routing.caches import REQUIRED
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.model.event import Event, RunTold


def snapshot_of(
    objects: Mapping[Kind, Mapping[str, Object]],
    settings: KubeSettings,
    policies: Policies,
    now_s: float,
    usage: Sequence[Event] = (),
    runs: Sequence[RunTold] = (),
    *,
    partial: bool = False,
    decides: bool = True,
) -> Snapshot:
    """Return a snapshot: the cluster state that these objects describe, and the plan of one scheduling cycle for this
    state. `partial`: True if the user may read only one namespace. `decides`: if False, no plan is computed, and the
    reasons are those that the scheduler wrote into the objects."""
    nowhere = Connection("http://nowhere.invalid", headers={}, tls=None)  # this connection never sends a request
    caches = {kind: Informer(nowhere, kind) for kind in objects}
    with without_warnings("phalanx.kube"):
        for kind, each in objects.items():
            for obj in each.values():
                caches[kind].observe(obj)
        world = KubeWorld(nowhere, caches.__getitem__, settings, lambda: now_s)
        world.caches.look_up([kind for kind in objects if kind not in REQUIRED])
        return think(world, caches.__getitem__, now_s, policies.policy, runs, usage, partial=partial, decides=decides)


def decided(snapshot: Snapshot) -> Snapshot:
    """Compute a plan on a copy of the snapshot's cluster state, and return the snapshot with this plan."""
    plan = decide(snapshot.cluster.copy(), snapshot.cluster.policy, snapshot.now_s).plan
    return replace(snapshot, plan=plan, partial=False)


@contextmanager
def uncollected(*, many: bool) -> Iterator[None]:
    """Disable the garbage collector while the context is open. All new objects stay in use, so the collector would find
    no garbage, and would take a third of the time. `many`: True to collect garbage once at the end, so that the objects
    of the previous state are freed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if many:
            gc.collect()
