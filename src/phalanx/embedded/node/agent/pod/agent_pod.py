"""Manage one pod on this node, from its admission to the deletion of its object. One task observes the containers,
acts, and reports the status.

The task is level-triggered. Each iteration reads the state of the containers, computes the next steps, performs them,
writes the status if it changed, and waits for an event or a timer. So a failed iteration is repeated, and after a crash
a new agent continues from the state in the files and the API.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.embedded.node.agent.container import Container
from phalanx.embedded.node.agent.pod.ending import DEADLINE, EVICTED, PodEnding, is_over, own_grace_s
from phalanx.embedded.node.agent.pod.pod_containers import PodContainers
from phalanx.embedded.node.agent.pod.removal import Deletion, delete_object, keep_logs
from phalanx.embedded.node.agent.pod.status_writer import PodStatusWriter
from phalanx.embedded.node.agent.starting.peers import PeerWait
from phalanx.embedded.node.agent.starting.pod_volumes import PodVolumes
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.environment import EnvironmentFault, with_addresses
from phalanx.embedded.node.pod.lifecycle import ContainerStateWaiting, Known, Steps, steps
from phalanx.embedded.node.pod.record import PodRecord
from phalanx.embedded.trees import remove_tree

log = logging.getLogger(__name__)

_RETRY_S = 0.5  # the pause after a call that the API server did not answer
_MOMENT_S = 0.1  # the time for which the report of a program's start is delayed


class AgentPod:
    """A pod on this node. `holds`: True as long as the pod's requests count against the node's resources. `ended`: a
    function that is called when neither a process nor the object of the pod exists any more."""

    def __init__(self, pod: Object, record: PodRecord, around: Surroundings, ended: Callable[[AgentPod], None]) -> None:
        self.pod, self.record = pod, record
        self._around, self._ended = around, ended
        self._wake = asyncio.Event()
        self._gone = False  # True after the pod's object was deleted
        self._delete_sent = False
        self._status = PodStatusWriter(around)
        self._volumes = PodVolumes(pod, record, around)
        self._peers = PeerWait()
        self._containers = PodContainers(pod, record, around, self._wake.set)
        # A pod that has already ended under an earlier agent process only waits for its deletion.
        self.holds = self._containers.is_any_up or not is_over(pod)

    @property
    def containers(self) -> Mapping[str, Container]:
        return self._containers.by_name

    @property
    def _ending(self) -> PodEnding:
        return PodEnding(pod=self.pod, record=self.record, is_gone=self._gone)

    # --- changes ------------------------------------------------------------------------------------------------------

    def update(self, pod: Object) -> None:
        self.pod = pod
        self._containers.take_in(pod)
        self._wake.set()

    def remove(self) -> None:
        """End the pod, because its object does not exist."""
        self._gone = True
        self._wake.set()

    def evict(self, message: str, *, disrupted: bool) -> None:
        """End the pod because of its disk usage. `disrupted`: True if the disk is nearly full, False if the pod exceeds
        its own limit."""
        if self._ending.must_end or not self.holds:
            return
        self.record = replace(self.record, failure=(EVICTED, message), disrupted=disrupted)
        with suppress(OSError):  # if the disk is full, the reason is only written to the API
            self.record.write(self._around.pod_dir(self.record.uid))
        self._around.tell.tell(self.pod, EVICTED, message, kind="Warning")
        self._wake.set()

    # --- iterations --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the pod until neither a process nor the object of the pod exists. If the task is cancelled, the processes
        continue."""
        try:
            while not (self._gone and not self.holds):
                self._wake.clear()
                due_s = await self._turn()
                await self._sleep(due_s)
            self._volumes.remove()
            keep_logs(self._around, self.record)
            remove_tree(self._around.pod_dir(self.record.uid))
        finally:
            self._containers.release()
        self._ended(self)

    async def _turn(self) -> float | None:
        """Run one iteration. Return the Unix time at which the next iteration must run even without an event; None if
        it only waits for events."""
        try:
            return await (self._work() if self.holds else self._finish())
        except (ApiError, OSError) as error:
            log.warning("pod %s/%s: %s", self.record.namespace, self.record.name, error)
            return time.time() + _RETRY_S
        except Exception as error:  # a defect that one pod causes must not stop all pods
            log.exception("pod %s/%s", self.record.namespace, self.record.name)
            self._around.tell.tell(self.pod, "FailedSync", f"error syncing pod: {error!r}", kind="Warning")
            return time.time() + 10 * _RETRY_S

    async def _work(self) -> float | None:
        now_s = time.time()
        self._check_deadline(now_s)
        known = self._containers.known()
        found = steps(self.pod["spec"], known, now_s, self._around.back_off, stopping=self._ending.must_end)
        dues = [found.wake_s, self._ending.deadline_s, *self._stop(found)]
        if found.start and self._peers.must_wait(self.pod, self._around.naming):
            return now_s + self._peers.AGAIN_S
        if found.start and not await self._set_up_volumes():
            dues.append(now_s + self._around.settings.patience.config_retry_s)
        elif found.start:
            await self._containers.start(found.start, self._with_addresses())
            self._wake.set()  # the next iteration handles the change
        if self._containers.is_any_running:
            dues.append(await self._volumes.renew_tokens(self.pod, now_s))
        if (settled_s := self._settled_s(found)) > now_s:
            dues.append(settled_s)
        # If the condition is false, the next iteration follows at once and writes the status.
        elif not (found.start and self._wake.is_set()):
            await self._report(self._containers.known(), over=found.done)
        return min((due for due in dues if due is not None), default=None)

    async def _sleep(self, due_s: float | None) -> None:
        """Wait for an event, or until a step is due."""
        if self._wake.is_set():
            return
        pause_s = None if due_s is None else max(0.0, due_s - time.time())
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._wake.wait()

    # --- steps --------------------------------------------------------------------------------------------------------

    def _check_deadline(self, now_s: float) -> None:
        """Record the failure of the pod if its deadline is exceeded. The record is written to disk before any container
        is stopped. Raises OSError."""
        deadline_s = self._ending.deadline_s
        if deadline_s is not None and now_s >= deadline_s:
            self.record = replace(self.record, failure=DEADLINE)
            self.record.write(self._around.pod_dir(self.record.uid))
            self._around.tell.tell(self.pod, *DEADLINE)

    def _stop(self, found: Steps) -> list[float | None]:
        """Take the next step of stopping each container that must stop. Return the time at which the next step of each
        container is due."""
        ending = self._ending
        dues = self._containers.stop(found.stop, ending.grace_s, ending.cause)
        return dues + self._containers.stop_doomed(own_grace_s(self.pod), besides=found.stop)

    async def _set_up_volumes(self) -> bool:
        """Set up the volumes before the first container starts. Return False if the setup must be tried again later."""
        if self._containers.is_any_started:
            return True
        try:
            await self._volumes.set_up(self.pod, self._with_addresses())
        except (EnvironmentFault, ApiRefusal) as error:
            self._around.tell.tell(self.pod, "FailedMount", str(error), kind="Warning")
            retry_s = time.time() + self._around.settings.patience.config_retry_s
            self._containers.wait(
                ContainerStateWaiting(reason="ContainerCreating", message=str(error), retry_s=retry_s)
            )
            return False
        return True

    def _with_addresses(self) -> Object:
        return with_addresses(self.pod, self.record.pod_ip, self._around.settings.address)

    # --- reports ------------------------------------------------------------------------------------------------------

    def _settled_s(self, found: Steps) -> float:
        """Return the earliest Unix time at which the start of the containers may be reported. If a program ends before
        this time, a single report contains its start and its end."""
        if found.done or found.stop or self.pod["spec"].get("restartPolicy", "Always") == "Always":
            return 0.0
        return self._containers.latest_start_s + _MOMENT_S

    async def _report(self, known: Mapping[str, Known], *, over: bool) -> None:
        """Write the status if it changed; the end of the pod is reported in the same way."""
        status = self._status.compute(self.pod, self.record, known, over=over)
        if not self._gone:
            self._gone = not await self._status.write(self.pod, status)
        if over and (self._gone or self._status.written == status):
            self.holds = False
            self._volumes.remove()  # only the logs of an ended pod are kept
            self._wake.set()

    async def _finish(self) -> float | None:
        """Delete the object of a pod that is being deleted, if no process runs and the status has been written."""
        if "deletionTimestamp" not in self.pod["metadata"] or self._delete_sent or self._gone:
            return None
        match await delete_object(self._around, self.pod):
            case Deletion.ACCEPTED:
                self._delete_sent = True
            case Deletion.GONE:
                self.remove()
            case Deletion.REFUSED:
                return time.time() + 10 * _RETRY_S
            case Deletion.UNKNOWN:
                return time.time() + _RETRY_S
        return None
