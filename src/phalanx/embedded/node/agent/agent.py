"""Manage the pods of this node. The agent admits or rejects each pod, and finds the pods' processes again after a
restart of the agent.

When the agent starts, it first handles the pods that it has admitted before, and then new pods in the order of their
creation. The requests of a pod count against the node's resources until no process of the pod is left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from phalanx.client.connection import STRATEGIC_PATCH, ApiError, ApiRefusal, ApiUnknown, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import NODES, PODS
from phalanx.client.quantity import QuantityError, amount
from phalanx.embedded.node.agent import disk
from phalanx.embedded.node.agent.pod.agent_pod import AgentPod
from phalanx.embedded.node.agent.pod.removal import keep_logs
from phalanx.embedded.node.container.attempt import RunningAttempt, attempts
from phalanx.embedded.node.container.cgroup import remove
from phalanx.embedded.node.machine.cpus import allot_cpus, machine_cpus
from phalanx.embedded.node.machine.surroundings import VOLUMES, Surroundings
from phalanx.embedded.node.pod.admission import GPU, Amounts, Rejection, admit, demand
from phalanx.embedded.node.pod.allotment import allot_devices, allot_named, sharing_container, told_devices
from phalanx.embedded.node.pod.record import PodRecord, records
from phalanx.embedded.node.pod.status import TERMINAL, at, rejected
from phalanx.embedded.node.pod.volumes import remove as remove_volumes

log = logging.getLogger(__name__)

DISK_PRESSURE = "DiskPressure"
_RETRY_S = 1.0
_ABOUT_NODE = ("NodeAffinity", "TaintToleration")


class Agent:
    """The node agent. `run` handles the changes of the pods' informer until it is cancelled. The processes of pods
    continue after its end."""

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
                except Exception:  # a defect that one pod causes must not stop other pods
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
        """Report that a deleted pod has ended, and delete its object. The pod was never admitted or ended long ago, so
        it has no process."""
        if "deletionTimestamp" in pod["metadata"]:
            self._keep(pod, PodRecord.of(pod, self.around.settings.address, at(time.time()), {}))

    # --- admission ---------------------------------------------------------------------------------------------------

    def _admit(self, pod: Object) -> Rejection | None:
        """Admit the pod, and return None; or return the reason for which it is rejected."""
        around = self.around
        allocatable = {name: amount(name, text) for name, text in around.allocatable.items()}
        try:
            if rejection := admit(pod, self._nodes.objects[around.name], allocatable, self._used()):
                return rejection
        except QuantityError as error:
            return Rejection(reason="UnexpectedAdmissionError", message=str(error))
        taken = [one.record for one in self.pods.values() if one.holds]
        ids = self.around.device_ids()
        devices = allot_devices(pod["spec"], ids, taken, told_devices(pod, ids), sharing_container(pod))
        if devices is None:
            text = f"Allocate failed due to requested number of devices unavailable for {GPU}, which is unexpected"
            return Rejection(reason="UnexpectedAdmissionError", message=text)
        try:
            named = allot_named(pod["spec"], self._free_devices(taken))
        except LookupError as error:
            resource, asked, free = error.args
            text = (
                f"Allocate failed due to requested number of devices unavailable for {resource}. Requested: {asked}, "
                f"Available: {free}, which is unexpected"
            )
            return Rejection(reason="UnexpectedAdmissionError", message=text)
        cpus: dict[str, tuple[int, ...]] = {}
        if around.settings.static_cpus:
            try:
                cpus = allot_cpus(pod["spec"], self._cpus, self._own_cpus())
            except LookupError as error:
                text = "not enough cpus available to satisfy request: requested={}, available={}".format(*error.args)
                return Rejection(reason="UnexpectedAdmissionError", message=text)
        address = self._address(pod, taken)
        self._keep(pod, PodRecord.of(pod, address, at(time.time()), devices, named, cpus), is_new=True)
        self._share_cpus()
        return None

    def _own_cpus(self) -> set[int]:
        """Return the CPUs that are assigned exclusively to a container."""
        held = (one.record.cpus.values() for one in self.pods.values() if one.holds)
        return {cpu for cpus in held for own in cpus for cpu in own}

    def _share_cpus(self, *, again: bool = False) -> None:
        """Restrict containers without exclusive CPUs to the remaining CPUs. `again`: True to do this even if the
        remaining CPUs have not changed, because a container may have started in the meantime."""
        shared = {cpu for node in self._cpus for cpu in node} - self._own_cpus()
        if not self.around.settings.static_cpus or (shared == self.around.shared_cpus and not again):
            return
        self.around.shared_cpus.clear()
        self.around.shared_cpus.update(shared)
        for pod in self.pods.values():
            for container in pod.containers.values():
                container.move()

    def _free_devices(self, taken: Sequence[PodRecord]) -> dict[str, Sequence[str]]:
        """Return the ids of free devices: resource -> the ids of its healthy devices that no pod has."""
        pool = self.around.devices
        used: dict[str, list[str]] = {resource: [] for resource in pool.resources}
        for record in taken:
            for devices in record.named.values():
                for resource, ids in devices.items():
                    used.setdefault(resource, []).extend(ids)
        return {resource: pool.free(resource, used[resource]) for resource in pool.resources}

    def _address(self, pod: Object, taken: Sequence[PodRecord]) -> str:
        if pod["spec"].get("hostNetwork"):
            return self.around.settings.address
        found = self.around.home.pod_address((record.pod_ip for record in taken), self._last_address)
        self._last_address = found or ""
        return found or self.around.settings.address

    def _used(self) -> Amounts:
        total: Amounts = {}
        for one in self.pods.values():
            if one.holds:
                for name, value in demand(one.pod["spec"]).items():
                    total[name] = total.get(name, 0) + value
        return total

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
        self._group.create_task(work)  # type: ignore[arg-type]  # every caller gives a coroutine

    # --- rejection ---------------------------------------------------------------------------------------------

    async def _refuse(self, pod: Object, rejection: Rejection) -> None:
        meta = pod["metadata"]
        if rejection.reason in _ABOUT_NODE and await self._was_mistaken(pod):
            return
        log.info("pod %s/%s rejected: %s", meta["namespace"], meta["name"], rejection.message)
        self.around.tell.tell(pod, rejection.reason, rejection.message, kind="Warning")
        status = rejected(pod, rejection.reason, rejection.message, time.time())
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        while True:
            try:
                answer = await self.around.connection.patch(
                    PODS, meta["name"], body, meta["namespace"], "status", STRATEGIC_PATCH
                )
                self.around.observe(answer)
                return
            except ApiRefusal as error:
                if error.code not in (404, 409):
                    log.warning("rejecting pod %s/%s: %s", meta["namespace"], meta["name"], error)
                return
            except ApiUnknown:
                await asyncio.sleep(_RETRY_S)

    async def _was_mistaken(self, pod: Object) -> bool:
        """Read the node from the API server, and try to admit the pod again. Return True if it was admitted now. The
        agent may have rejected the pod because its cached Node object was older than the scheduler's."""
        try:
            self._nodes.observe(await self.around.connection.get(NODES, self.around.name))
        except ApiError:
            return False
        return self._admit(pod) is None

    # --- the disk -------------------------------------------------------------------------------------------------

    async def watch_disk(self, told: Callable[[], Awaitable[None]]) -> None:
        """Measure the disk usage of pods and evict pods that use too much, until cancelled. `told`: a function that
        writes the pressure conditions of the node into its status."""
        while True:
            await asyncio.sleep(self.around.settings.patience.disk_look_s)
            self._share_cpus(again=True)  # CPUs of pods that have ended return to the shared pool
            free_bytes, low = await asyncio.to_thread(disk.room, self.around.settings.pods_dir, self._reserve_bytes)
            self.around.pressures.add(DISK_PRESSURE) if low else self.around.pressures.discard(DISK_PRESSURE)
            await told()
            await asyncio.to_thread(self.around.kept_logs.prune, time.time(), low=low)
            candidates = [
                disk.EvictionCandidate(pod=one.pod, scratch=await self._scratch(one))
                for one in list(self.pods.values())
                if one.holds and (low or disk.is_limited(one.pod))
            ]
            for candidate in candidates:
                if why := disk.over_limit(candidate.pod, candidate.scratch):
                    self._evict(candidate, why, disrupted=False)
            if low and (first := disk.first_to_go(candidates)) is not None:
                self._evict(first, disk.low_disk_message(first, free_bytes), disrupted=True)

    @property
    def _reserve_bytes(self) -> int | None:
        return self.around.settings.disk_reserve_bytes

    async def _scratch(self, pod: AgentPod) -> disk.Scratch:
        folder = self.around.pod_dir(pod.record.uid)
        return await disk.measure(folder, folder / VOLUMES, pod.pod)

    def _evict(self, candidate: disk.EvictionCandidate, why: str, *, disrupted: bool) -> None:
        if (pod := self.pods.get(candidate.pod["metadata"]["uid"])) is not None:
            log.info("pod %s/%s evicted: %s", pod.record.namespace, pod.record.name, why)
            pod.evict(why, disrupted=disrupted)

    # --- after a restart --------------------------------------------------------------------------------------------

    def _find_again(self, mine: dict[str, Object]) -> None:
        """Manage the pods that have a record on disk again. If the object of such a pod does not exist any more, remove
        the pod's processes and files."""
        for record in records(self.around.settings.pods_dir):
            if record.uid in mine:
                self._keep(mine[record.uid], record)
            else:
                self._spawn(self._end_orphan(record))
        self._share_cpus()

    async def _end_orphan(self, record: PodRecord) -> None:
        folder = self.around.pod_dir(record.uid)
        for container in (path for path in folder.iterdir() if path.is_dir() and path.name != VOLUMES):
            for attempt in attempts(container)[-1:]:
                if isinstance(attempt.settle(), RunningAttempt):
                    log.info("pod %s/%s was deleted; its processes are ended", record.namespace, record.name)
                    attempt.kill()
                    await attempt.ended()
                remove(attempt.spec.cgroup_dirs)
        remove_volumes(folder / VOLUMES)
        keep_logs(self.around, record)
        remove_volumes(folder)
