"""Manage the pods of this node. The agent admits or rejects each pod, and after its own restart finds the processes of
running pods.

At its start, the agent first handles the pods that an earlier agent process admitted, and then new pods in the order of
their creation. The requests of a pod count against the node's resources until no process of the pod is left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from phalanx.client.connection import ApiError, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import NODES
from phalanx.embedded.node.agent.allocation import HeldResources, allocate
from phalanx.embedded.node.agent.disk import DiskGuard
from phalanx.embedded.node.agent.pod.agent_pod import AgentPod
from phalanx.embedded.node.agent.pod.removal import end_orphan
from phalanx.embedded.node.agent.pod.status_writer import write_rejection
from phalanx.embedded.node.machine.cpus import machine_cpus
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.admission import Rejection
from phalanx.embedded.node.pod.record import PodRecord, records
from phalanx.embedded.node.pod.status import TERMINAL, at

log = logging.getLogger(__name__)

_ABOUT_NODE = ("NodeAffinity", "TaintToleration")


class Agent:
    """The node agent. `run` handles the changes that the informer of pods reports, until it is cancelled. After that,
    the processes of pods continue to run."""

    def __init__(self, around: Surroundings, nodes: Informer) -> None:
        self.pods: dict[str, AgentPod] = {}  # uid of a pod -> the pod
        self.around, self._nodes = around, nodes
        self._refused: set[str] = set()  # uids of pods that the node rejected
        self._last_address = ""
        self._cpus = machine_cpus()
        self._group: asyncio.TaskGroup | None = None

    async def run(self, pods: Informer) -> None:
        await pods.synced.wait()
        await self._nodes.synced.wait()
        async with asyncio.TaskGroup() as self._group:
            mine = {pod["metadata"]["uid"]: pod for pod in pods.objects.values() if self._is_mine(pod)}
            self._find_again(mine)
            for pod in sorted(mine.values(), key=lambda pod: pod["metadata"]["creationTimestamp"]):
                try:
                    self._consider(pod)
                except Exception:  # a defect in the handling of one pod must not stop other pods
                    log.exception("pod %s/%s", pod["metadata"]["namespace"], pod["metadata"]["name"])
            pods.subscribe(self._take)
            await asyncio.Event().wait()

    def find(self, namespace: str, name: str) -> AgentPod | None:
        """Return the newest pod of that name."""
        found = [one for one in self.pods.values() if (one.record.namespace, one.record.name) == (namespace, name)]
        return found[-1] if found else None

    # --- changes --------------------------------------------------------------------------------------------------

    def _is_mine(self, pod: Object) -> bool:
        return bool(pod["spec"].get("nodeName") == self.around.name)

    def _take(self, change: Change) -> None:
        if change.new is not None and self._is_mine(change.new):
            self._consider(change.new)
        elif change.new is None and change.old is not None:
            uid = change.old["metadata"]["uid"]
            self._refused.discard(uid)
            if uid in self.pods:
                self.pods[uid].remove()

    def _consider(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self.pods:
            self.pods[uid].update(pod)
        elif uid in self._refused and "deletionTimestamp" not in pod["metadata"]:
            return
        elif (pod.get("status") or {}).get("phase") in TERMINAL or "deletionTimestamp" in pod["metadata"]:
            self._let_go(pod)
        elif rejection := self._admit(pod):
            self._refused.add(uid)
            self._spawn(self._refuse(pod, rejection))

    def _let_go(self, pod: Object) -> None:
        """Report that a deleted pod has ended, and delete its object. The pod has no process, because it was never
        admitted or has already ended."""
        if "deletionTimestamp" in pod["metadata"]:
            self._keep(pod, PodRecord.of(pod, self.around.settings.address, at(time.time()), {}))

    # --- admission ---------------------------------------------------------------------------------------------------

    def _admit(self, pod: Object) -> Rejection | None:
        """Admit the pod and return None, or return the reason why the node rejects it."""
        held = self._held()
        found = allocate(pod, self._nodes.objects[self.around.name], held, self.around, self._cpus)
        if isinstance(found, Rejection):
            return found
        address = self._address(pod, held)
        record = PodRecord.of(pod, address, at(time.time()), found.devices, found.named, found.cpus)
        self._keep(pod, record, is_new=True)
        self._share_cpus()
        return None

    def _held(self) -> HeldResources:
        holding = [one for one in self.pods.values() if one.holds]
        return HeldResources(specs=[one.pod["spec"] for one in holding], records=[one.record for one in holding])

    def _share_cpus(self, *, again: bool = False) -> None:
        """Restrict the containers without exclusive CPUs to the CPUs that are not assigned exclusively. `again`: True
        to write the CPUs even if the remaining CPUs have not changed, because a container may have started in the
        meantime."""
        shared = {cpu for node in self._cpus for cpu in node} - self._held().cpus()
        if not self.around.settings.static_cpus or (shared == self.around.shared_cpus and not again):
            return
        self.around.shared_cpus.clear()
        self.around.shared_cpus.update(shared)
        for pod in self.pods.values():
            for container in pod.containers.values():
                container.move()

    def _address(self, pod: Object, held: HeldResources) -> str:
        if pod["spec"].get("hostNetwork"):
            return self.around.settings.address
        found = self.around.home.pod_address(held.addresses(), self._last_address)
        self._last_address = found or ""
        return found or self.around.settings.address

    def _keep(self, pod: Object, record: PodRecord, *, is_new: bool = False) -> None:
        """Start the task of a pod. `is_new`: True if no record of the pod is on disk yet."""
        self.around.naming.give(record.uid, record.pod_ip)
        kept = self.pods[record.uid] = AgentPod(pod, record, self.around, self._forget)
        self._spawn(self._record_and_run(kept) if is_new else kept.run())

    async def _record_and_run(self, pod: AgentPod) -> None:
        """Write the pod's record to disk, and then run the pod. The record is written before any process of the pod
        starts, so that a restarted agent finds the pod."""
        folder, record = self.around.pod_dir(pod.record.uid), pod.record
        try:
            await asyncio.to_thread(record.write, folder)
        except OSError as error:
            self._forget(pod)
            self._refused.add(record.uid)
            text = f"{folder}: {error.strerror}; free some space on the node"
            await self._refuse(pod.pod, Rejection(reason="UnexpectedAdmissionError", message=text))
            return
        await pod.run()

    def _forget(self, pod: AgentPod) -> None:
        self.pods.pop(pod.record.uid, None)
        if self.around.fence is not None:
            self.around.fence.forget(pod.record.uid)

    def _spawn(self, work: object) -> None:
        assert self._group is not None
        self._group.create_task(work)  # type: ignore[arg-type]  # all callers pass a coroutine

    # --- rejection ---------------------------------------------------------------------------------------------

    async def _refuse(self, pod: Object, rejection: Rejection) -> None:
        if rejection.reason in _ABOUT_NODE and await self._was_mistaken(pod):
            return
        meta = pod["metadata"]
        log.info("pod %s/%s rejected: %s", meta["namespace"], meta["name"], rejection.message)
        await write_rejection(self.around, pod, rejection)

    async def _was_mistaken(self, pod: Object) -> bool:
        """Read the node from the API server, and try to admit the pod again. Return True if the pod is admitted now.
        The agent may have rejected the pod because the agent's cached Node object was older than that of the
        scheduler."""
        try:
            self._nodes.observe(await self.around.connection.get(NODES, self.around.name))
        except ApiError:
            return False
        return self._admit(pod) is None

    # --- the disk -------------------------------------------------------------------------------------------------

    async def watch_disk(self, report: Callable[[], Awaitable[None]]) -> None:
        """Measure the disk usage of pods and evict pods that use too much, until cancelled. `report`: a function that
        writes the pressure conditions into the status of the node."""
        guard = DiskGuard(self.around, self.pods)
        while True:
            await asyncio.sleep(self.around.settings.patience.disk_look_s)
            self._share_cpus(again=True)  # CPUs of pods that have ended return to the shared pool
            await guard.look(report)

    # --- after a restart --------------------------------------------------------------------------------------------

    def _find_again(self, mine: dict[str, Object]) -> None:
        """Start to manage the pods that have a record on disk. If the object of such a pod does not exist any more, end
        its processes and remove its files."""
        for record in records(self.around.settings.pods_dir):
            if record.uid in mine:
                self._keep(mine[record.uid], record)
            else:
                self._spawn(end_orphan(self.around, record))
        self._share_cpus()
