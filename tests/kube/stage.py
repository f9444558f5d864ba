"""A scheduler process on the double: started, turned step by step, killed, started again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from phalanx import loop
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.core.fold.fold import fold_plan
from phalanx.kube.gang.effects import GangTimeouts
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.install.installation import Installation
from phalanx.kube.read.records import RecordKey
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.usage import load_usage
from phalanx.kube.world.capacity_sources import CapacitySources, NodeProvisioning, OtherClusters
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.model.job import Phase
from phalanx.model.plan import Action, Plan
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests import clockwork
from tests.invariants import check_invariants
from tests.kube.double import Api, Caches, Client, Controller, Object

POLICY = Policy()


class Stage:
    """An API, its Job controller and one scheduler at a time. `now_s`: the time of all of them. `turn`: one step of
    each."""

    def __init__(
        self, *, nodes: list[Object], gang: bool = True, seed: int = 0, dialects: frozenset[str] = frozenset()
    ) -> None:
        self.api, self.seed, self.now_s, self.dialects = Api(), seed, 1_000.0, dialects
        self.controller = Controller(self.api)
        self.fault: Callable[[str], str | None] = lambda write: None
        self.timeouts = GangTimeouts()
        self.actions: list[Action] = []
        self.killed = False
        self.key = RecordKey(secret=b"of these tests", since_s=0.0)
        self.provisioning: NodeProvisioning | None = None
        self.clusters: Callable[[Client], OtherClusters | None] = lambda client: None
        self.events: Callable[[], None] = lambda: None  # what else happens in a turn, where a test plays it
        self.pace_s = 0.0  # how far the time goes on then
        self.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {"gang": gang}})
        for one in nodes:
            self.api.put(NODES, one)

    def put(self, *objects: Object) -> None:
        """Jobs and pods, as their user creates them."""
        for obj in objects:
            self.api.put(JOBS if "template" in obj["spec"] else PODS, obj)

    def put_node(self, one: Object) -> None:
        self.api.put(NODES, one)

    @contextlib.asynccontextmanager
    async def scheduler(self) -> AsyncIterator[None]:
        """A fresh process: empty memory, caches just listed."""
        self.killed = False
        client = Client(self.api, lambda write: self.fault(write))
        self.caches = Caches(self.api, self.seed, client)
        settings = KubeSettings(timeouts=self.timeouts, dialects=self.dialects)
        installed = Installation(record_key=self.key)
        self.cluster = Cluster()
        self.world = KubeWorld(
            client,  # type: ignore[arg-type]  # a double
            self.caches,
            settings,
            lambda: self.now_s,
            None,
            installed,
            lambda: len(self.cluster.breaches),
            CapacitySources(nodes=self.provisioning, clusters=self.clusters(client)),
        )
        await self.world.sync(load_usage(client))  # type: ignore[arg-type]  # a double
        writing = asyncio.ensure_future(self.world.effects.writer.run())
        self._client, self._writing = client, writing
        dialects = self.world.watch.capacity.dialects.dialects
        telling = [asyncio.ensure_future(self.world.answers.run(0.0))] if dialects else []
        try:
            yield
        finally:
            client.dead = True
            for task in (writing, *telling):
                task.cancel()
            await asyncio.gather(writing, *telling, return_exceptions=True)
            self.api.watchers.clear()

    async def turn(self, *, controller: bool = True) -> None:
        """Watches deliver some of their news, the loop makes one step, its writes go out, the Job controller works."""
        self.caches.deliver()
        plan = loop.step(self.cluster, self.world.events(), POLICY, self.now_s, self.world)
        self.actions += plan.actions
        await clockwork.settle(20)
        self.killed = self._client.dead
        if self._writing.done() and not self.killed:
            self._writing.result()  # a defect of the writer, shown here
        assert not check_invariants(self.cluster), check_invariants(self.cluster)
        if controller:
            self.controller.turn()

    def decide(self, *actions: Action) -> None:
        """As if the core had decided so now."""
        plan = Plan(actions=actions)
        fold_plan(self.cluster, plan)
        self.world.apply(plan)

    async def until(self, reached: Callable[[], bool], turns: int = 200) -> None:
        for _ in range(turns):
            if reached() or self.killed:
                return
            await self.turn()
            if not self.world.effects.writer.idle:
                await asyncio.sleep(0.005)  # a write that is tried again rests
        raise AssertionError(f"not reached in {turns} turns; writes: {self.api.writes}; bound: {self.api.bound()}")

    def phase(self, job: str) -> Phase:
        return self.cluster.jobs[f"default/{job}"].phase

    def reason(self, job: str) -> str:
        found = self.cluster.reason(f"default/{job}")
        return f"{found.code}: {found.text}" if found is not None else ""

    def finish(self, pod: str, phase: str = "Succeeded", reason: str = "") -> None:
        found = self.api.objects[PODS][f"default/{pod}"]
        self.api.put(PODS, {**found, "status": {"phase": phase, "reason": reason}})

    def change(self, job: str, spec: Object, annotations: Object | None = None) -> None:
        found = self.api.objects[JOBS][f"default/{job}"]
        meta = {**found["metadata"], "annotations": {**found["metadata"].get("annotations", {}), **(annotations or {})}}
        self.api.put(JOBS, {**found, "metadata": meta, "spec": {**found["spec"], **spec}})
