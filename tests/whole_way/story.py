"""One seeded run: jobs of all dialects on a few nodes, events, then a quiet time, and the judge.

During the events, users submit, delete, recreate, suspend, resume and scale jobs. Pods end, fail, are deleted, or
terminate slowly. Nodes fail, return and are cordoned. Writes of the scheduler are lost or refused. The scheduler is
killed, and another takes over. In the quiet time only controllers, kubelets and the scheduler act, until none of them
has anything left to do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.model.plan import Wait
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage

from .judge import ALIVE, free_cpu, is_foreign, judge, reasons
from .works import DIALECTS, FORMS, Work, end, furnish, resume, suspend

NOW_S = 1_780_272_000.0  # a time after the double's objects were created
TURNS = 40  # the turns with events
QUIET = 20  # turns without a decision, after 4 of them a minute each: longer than every backoff, hold and grace period
MOST = 400  # the most turns until the cluster is quiet


class Restless(AssertionError):
    """The scheduler still decides or writes, although no event happens any more."""


@dataclass
class Story:
    """`log`: the events, in order."""

    seed: int
    works: list[Work] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.forms = self.dice.sample(list(FORMS), self.dice.choice([1, 2, 3, len(FORMS)]))
        sizes = [self.dice.randint(2, 8) for _ in range(self.dice.randint(1, 3))]
        self.nodes = {f"n{number}": node(f"n{number}", size) for number, size in enumerate(sizes)}
        self.stage = Stage(nodes=list(self.nodes.values()), seed=self.seed, dialects=DIALECTS)
        self.stage.now_s = NOW_S
        self.troubled = self.dice.random() < 0.5
        self.stage.fault = self._fault
        self.calm, self.cpu, self.turn = False, sum(sizes), 0
        self.late = self.dice.random() < 0.3  # the queues are created after the scheduler has started
        if not self.late:
            furnish(self.stage, self.dice, self.cpu)

    async def play(self) -> list[str]:
        """Return the faults that the judge finds at the end; empty: none. The scheduler that ran in the last turns is
        judged first, then a scheduler that has just started. A third scheduler must decide as the second did."""
        wrong: list[str] | None = None
        while wrong is None:
            async with self.stage.scheduler():
                wrong = await self._one_scheduler()
        async with self.stage.scheduler():
            await self._rest()
            wrong += [f"after a restart: {line}" for line in judge(self.stage)]
            before = reasons(self.stage)
        async with self.stage.scheduler():
            bound = self.stage.api.bound()
            self.stage.actions.clear()
            for _ in range(6):
                await self._turn(0.0)
            decided = [action for action in self.stage.actions if not isinstance(action, Wait)]
            wrong += [f"after two restarts: {action}" for action in decided]
            wrong += [f"after two restarts: {name} is {now}" for name, now in differences(before, reasons(self.stage))]
            wrong += [f"after two restarts: {line}" for line in judge(self.stage)] if not wrong else []
            assert bound == self.stage.api.bound() or wrong
        return wrong

    async def _one_scheduler(self) -> list[str] | None:
        """Play until another scheduler takes over, and return None then. After the last turn, return the faults that
        the judge finds."""
        while self.turn < TURNS:
            self.turn += 1
            if self.late and self.turn == 3:
                furnish(self.stage, self.dice, self.cpu)
            self._happen()
            await self._turn(self.dice.choice([1.0, 1.0, 10.0, 40.0]))
            if self.stage.killed or self.dice.random() < 0.03:
                self.log.append("the scheduler is another")
                return None
        self.calm, self.stage.controller.slow = True, False
        for name in self.nodes:
            if self.stage.api.objects[NODES].get(name, {"spec": {"unschedulable": True}}).get("spec"):
                self._put_node(name)
        await self._rest()
        return judge(self.stage)

    # --- turns --------------------------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        """Play turns until no decision, write or binding has happened for `QUIET` turns."""
        still = 0
        for _ in range(MOST):
            self.stage.actions.clear()
            writes, version = len(self.stage.api.writes), self.stage.api.version
            await self._turn(1.0 if still < 4 else 60.0)
            acted = any(not isinstance(action, Wait) for action in self.stage.actions)
            quiet = not acted and (len(self.stage.api.writes), self.stage.api.version) == (writes, version)
            still = still + 1 if quiet else 0
            if still >= QUIET:
                return
        raise Restless(f"seed {self.seed}: {self.stage.actions[-3:]}, writes {self.stage.api.writes[-5:]}")

    async def _turn(self, seconds: float) -> None:
        self.stage.now_s += seconds
        await asyncio.sleep(seconds)  # in this time the scheduler also retries failed writes
        for work in self.works:
            work.keep(self.stage.api)
        self._kubelets()
        await self.stage.turn()

    def _kubelets(self) -> None:
        """Set bound pods to Running, and delete pods whose node is gone. Keep pods that succeeded, because the double's
        Job controller counts them."""
        api = self.stage.api
        for pod in list(api.pods()):
            name = pod["spec"].get("nodeName")
            if name and name not in api.objects[NODES] and pod["status"]["phase"] != "Succeeded":
                api.drop(PODS, double.key_of(pod))
            elif name and pod["status"]["phase"] == "Pending":
                ready = [{"type": "Ready", "status": "True"}]
                api.put(PODS, {**pod, "status": {"phase": "Running", "conditions": ready}})

    def _fault(self, write: str) -> str | None:
        if self.calm or not self.troubled or self.dice.random() > 0.08:
            return None
        return self.dice.choice(["kill", "kill after", "lost", "not today", "broken: down"])

    # --- what happens -------------------------------------------------------------------------------------------------

    def _happen(self) -> None:
        for _ in range(self.dice.choice([0, 1, 1, 2])):
            what = self.dice.choices(list(EVENTS), [weight for _, weight in EVENTS.values()])[0]
            if said := EVENTS[what][0](self):
                self.log.append(f"{what} {said}")

    def submit(self) -> str:
        name, form = f"w{len(self.works)}", self.dice.choice(self.forms)
        work = FORMS[form](name, self.dice)
        self.works.append(work)
        work.create(self.stage.api)
        return f"{name} ({form})"

    def _any(self, holds: Callable[[Work], bool]) -> Work | None:
        found = [work for work in self.works if holds(work)]
        return self.dice.choice(found) if found else None

    def delete(self) -> str:
        work = self._any(lambda work: work.wanted)
        if work is not None:
            work.delete(self.stage.api)
        return work.name if work is not None else ""

    def recreate(self) -> str:
        work = self._any(lambda work: not work.wanted) or self._any(lambda work: work.wanted)
        if work is None:
            return ""
        work.delete(self.stage.api)
        work.create(self.stage.api)
        return work.name

    def suspend(self) -> str:
        work = self._any(lambda work: bool(work.jobs) and work.wanted)
        for job in work.jobs if work is not None else ():
            suspend(self.stage.api, job)
        return work.name if work is not None else ""

    def resume(self) -> str:
        work = self._any(lambda work: bool(work.jobs) and work.wanted)
        for job in work.jobs if work is not None else ():
            resume(self.stage.api, job)
        return work.name if work is not None else ""

    def scale(self) -> str:
        work = self._any(lambda work: work.wanted and len(work.pods or work.jobs) > 0)
        if work is None:
            return ""
        if work.jobs:
            return self._scale_job(work)
        if len(work.pods) > 1 and self.dice.random() < 0.5:
            name = max(work.pods)
            del work.pods[name]
            end(self.stage.api, name)
        else:
            like = work.pods[max(work.pods)]
            name = f"{work.name}-{self.dice.randint(10, 99)}"
            work.pods[name] = {**like, "metadata": {**like["metadata"], "name": name}}
        return f"{work.name} by {name}"

    def _scale_job(self, work: Work) -> str:
        there = self.stage.api.objects[JOBS].get(double.key_of(work.jobs[0]))
        if there is None:
            return ""
        pods = self.dice.randint(1, 5)
        labels = there["metadata"]["labels"]
        pods = max(pods, int(labels.get("phalanx.dev/min-available", 1)))
        if not there["spec"].get("suspend") and "phalanx.dev/min-available" not in labels:
            return ""
        self.stage.change(work.name, {"parallelism": pods, "completions": max(pods, there["spec"]["completions"])})
        return f"{work.name} to {pods}"

    def finish(self) -> str:
        return self._end_pod("Succeeded")

    def fail(self) -> str:
        return self._end_pod("Failed")

    def _end_pod(self, phase: str) -> str:
        running = [pod for pod in self.stage.api.pods() if pod["status"]["phase"] == "Running"]
        names = [pod["metadata"]["name"] for pod in running if "deletionTimestamp" not in pod["metadata"]]
        if not names:
            return ""
        name = self.dice.choice(names)
        self.stage.finish(name, phase)
        return name

    def kill(self) -> str:
        pods = [pod["metadata"]["name"] for pod in self.stage.api.pods() if pod["status"]["phase"] in ALIVE]
        if not pods:
            return ""
        name = self.dice.choice(pods)
        end(self.stage.api, name)
        return name

    def lose_node(self) -> str:
        name = self.dice.choice(list(self.nodes))
        if name not in self.stage.api.objects[NODES]:
            self._put_node(name)
            return f"{name} is back"
        self.stage.api.drop(NODES, name)
        return name

    def cordon(self) -> str:
        name = self.dice.choice(list(self.nodes))
        there = self.stage.api.objects[NODES].get(name)
        if there is None:
            return ""
        self._put_node(name, unschedulable=not there.get("spec", {}).get("unschedulable"))
        return name

    def _put_node(self, name: str, *, unschedulable: bool = False) -> None:
        spec: Object = {"spec": {"unschedulable": True}} if unschedulable else {}
        self.stage.api.put(NODES, {**self.nodes[name], **spec})

    def foreign(self) -> str:
        """Bind a pod of another scheduler to a node with free capacity; or end such a pod."""
        there = [pod["metadata"]["name"] for pod in self.stage.api.pods() if is_foreign(pod)]
        if there and self.dice.random() < 0.4:
            end(self.stage.api, name := self.dice.choice(there))
            return f"{name} ends"
        free = [name for name, left in free_cpu(self.stage).items() if left >= 1000]
        if not free:
            return ""
        name, on = f"foreign-{self.turn}-{self.dice.randint(0, 999)}", self.dice.choice(free)
        one = double.pod(name, "1")
        one["metadata"]["labels"] = {}
        one["spec"] |= {"schedulerName": "default-scheduler", "nodeName": on}
        self.stage.api.put(PODS, one)
        return f"{name} on {on}"

    def slow(self) -> str:
        self.stage.controller.slow = not self.stage.controller.slow
        return str(self.stage.controller.slow)


EVENTS: Mapping[str, tuple[Callable[[Story], str], int]] = {
    "submit": (Story.submit, 10),
    "delete": (Story.delete, 2),
    "recreate": (Story.recreate, 2),
    "suspend": (Story.suspend, 1),
    "resume": (Story.resume, 2),
    "scale": (Story.scale, 2),
    "finish": (Story.finish, 5),
    "fail": (Story.fail, 2),
    "kill": (Story.kill, 2),
    "node lost": (Story.lose_node, 1),
    "cordon": (Story.cordon, 1),
    "slow": (Story.slow, 1),
    "foreign": (Story.foreign, 2),
}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str]]:
    names = sorted({*before, *after})
    found = [(name, before.get(name, "-"), after.get(name, "-")) for name in names]
    return [(name, f"{now}, it was {then}") for name, then, now in found if then != now]
