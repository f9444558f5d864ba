"""Manage one pod on this node, from its admission to the deletion of its object. One task observes the containers,
acts, and reports the status.

Every iteration does the same (level-triggered): it reads the state of the containers, computes the next steps, takes
them, writes the status if it changed, and waits for an event or a timer. So a failed iteration is repeated, and a
killed agent continues from the state in the files and the API.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.kind import PODS
from phalanx.client.moment import read_moment
from phalanx.embedded.node.agent.container import Container
from phalanx.embedded.node.agent.starting.pod_volumes import PodVolumes
from phalanx.embedded.node.agent.status_writer import PodStatusWriter
from phalanx.embedded.node.container.attempt import Planned, RunningAttempt
from phalanx.embedded.node.container.log.kept import KeptPod
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.admission import every_container
from phalanx.embedded.node.pod.cause import deletion_cause
from phalanx.embedded.node.pod.environment import EnvironmentFault
from phalanx.embedded.node.pod.lifecycle import Known, Steps, Waiting, steps
from phalanx.embedded.node.pod.record import PodRecord
from phalanx.embedded.node.pod.status import TERMINAL
from phalanx.embedded.trees import remove_tree

log = logging.getLogger(__name__)

_RETRY_S = 0.5  # the pause after a call that the API server did not answer
_MOMENT_S = 0.1  # how long the report of a program's start is delayed
_FORCED_GRACE_S = 1.0  # the grace period of a pod whose object does not exist any more
_PEERS_S, _PEERS_AGAIN_S = 1.0, 0.02  # the longest wait for the peers' addresses; the pause between two reads
_DEADLINE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


class AgentPod:
    """A pod on this node. `holds`: True as long as the pod's requests count against the node's resources. `ended` is
    called when no process and no object of the pod exists any more."""

    def __init__(self, pod: Object, record: PodRecord, around: Surroundings, ended: Callable[[AgentPod], None]) -> None:
        self.pod, self.record = pod, record
        self._around, self._ended = around, ended
        self._wake = asyncio.Event()
        self._gone = False  # True after the pod's object was deleted
        self._delete_sent = False
        self._status = PodStatusWriter(around)
        self._volumes = PodVolumes(pod, record, around)
        self._is_among_peers = False
        self._alone_from_s = time.monotonic() + _PEERS_S
        self.containers: dict[str, Container] = {}
        self._take_in_containers()
        # A pod that ended while an earlier agent process ran only waits for its deletion.
        up = any(isinstance(one.known.state, RunningAttempt | Planned) for one in self.containers.values())
        self.holds = up or (pod.get("status") or {}).get("phase") not in TERMINAL

    # --- changes ------------------------------------------------------------------------------------------------------

    def update(self, pod: Object) -> None:
        images = _images(self.pod)
        self.pod = pod
        self._take_in_containers()
        for container in self.containers.values():
            container.pod = pod
            if images.get(container.name) != _images(pod).get(container.name):
                container.image_changed()
        self._wake.set()

    def _take_in_containers(self) -> None:
        """Create a `Container` for each new container of the spec. Ephemeral containers are added to the spec while the
        pod runs."""
        for one in every_container(self.pod["spec"]):
            if (name := one["name"]) not in self.containers:
                self.containers[name] = Container(name, self.pod, self.record, self._around, self._wake.set)

    def remove(self) -> None:
        """End the pod, because its object was deleted or has never existed."""
        self._gone = True
        self._wake.set()

    def known(self) -> dict[str, Known]:
        return {name: container.refresh() for name, container in self.containers.items()}

    # --- iterations --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the pod until no process and no object of it is left. If the task is cancelled, the processes go on."""
        try:
            while not (self._gone and not self.holds):
                self._wake.clear()
                due_s = await self._turn()
                await self._sleep(due_s)
            self._clean_up()
        finally:
            for container in self.containers.values():
                container.release()
        self._ended(self)

    async def _turn(self) -> float | None:
        """Run one iteration. Return the Unix time at which the next iteration is due even if nothing changes until
        then; None if no time is set."""
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
        found = self._steps(now_s)
        dues = [found.wake_s, self._deadline_s(), *self._stop(found)]
        if found.start and self._awaits_peers():
            return now_s + _PEERS_AGAIN_S
        if found.start and not await self._set_up_volumes():
            dues.append(now_s + self._around.settings.patience.config_retry_s)
        elif found.start:
            for name in found.start:
                await self.containers[name].start(self._with_addresses())
            self._wake.set()  # the next iteration handles the change
        if any(isinstance(one.known.state, RunningAttempt) for one in self.containers.values()):
            dues.append(await self._volumes.renew_tokens(self.pod, now_s))
        if (settled_s := self._settled_s(found)) > now_s:
            dues.append(settled_s)
        elif not (found.start and self._wake.is_set()):  # otherwise the next iteration follows at once, and reports
            await self._report(found)
        return min((due for due in dues if due is not None), default=None)

    def _awaits_peers(self) -> bool:
        """Return True while pods of the same job still wait for their addresses. The containers start when this method
        returns False, because a program may look up its peers when it starts."""
        if self._is_among_peers or time.monotonic() >= self._alone_from_s:
            return False
        self._is_among_peers = self._around.naming.knows_peers(self.pod)
        return not self._is_among_peers

    def _settled_s(self, found: Steps) -> float:
        """Return the Unix time from which the start of the containers may be reported. If a program ends before this
        time, one report contains both its start and its end."""
        if found.done or found.stop or self.pod["spec"].get("restartPolicy", "Always") == "Always":
            return 0.0
        states = [one.known.state for one in self.containers.values()]
        return max((state.started_s + _MOMENT_S for state in states if isinstance(state, RunningAttempt)), default=0.0)

    def _steps(self, now_s: float) -> Steps:
        stopping = self._is_stopping()
        return steps(self.pod["spec"], self.known(), now_s, self._around.back_off, stopping=stopping)

    def _is_stopping(self) -> bool:
        """Return True if the pod must end, because it is deleted, has exceeded its deadline, or was evicted, or because
        another component has ended it (a drain, a lost node)."""
        ended = self.record.failure is not None or (self.pod.get("status") or {}).get("phase") in TERMINAL
        return self._gone or ended or "deletionTimestamp" in self.pod["metadata"]

    def _stop(self, found: Steps) -> list[float | None]:
        """Take the next step of stopping each container that must stop. Return the time at which the next step of each
        of them is due."""
        grace_s = self._grace_s()
        told = self._told()
        dues = [self.containers[name].stop(grace_s, told) for name in found.stop]
        for container in self.containers.values():
            if container.doomed and container.name not in found.stop:
                event = f"Container {container.name} {_will_restart(container.doomed)}"
                dues.append(container.stop(self._own_grace_s(), container.doomed, event))
        return dues

    def evict(self, message: str, *, disrupted: bool) -> None:
        """End the pod because of its disk usage. `disrupted`: True if the disk is nearly full, False if the pod exceeds
        its own limit."""
        if self._is_stopping() or not self.holds:
            return
        self.record = replace(self.record, failure=("Evicted", message), disrupted=disrupted)
        with suppress(OSError):  # if the disk is full, only the API gets the reason
            self.record.write(self._around.pod_dir(self.record.uid))
        self._around.tell.tell(self.pod, "Evicted", message, kind="Warning")
        self._wake.set()

    def _told(self) -> str:
        """Return the reason for which the remaining containers are stopped."""
        if self.record.failure is not None:
            return self.record.failure[1]
        if self._gone or "deletionTimestamp" in self.pod["metadata"]:
            return deletion_cause(self.pod)
        if (status := self.pod.get("status") or {}).get("phase") in TERMINAL:
            return f"the pod was ended: {status.get('message') or status.get('reason') or 'nobody said why'}"
        return "the pod's other containers had ended"

    def _grace_s(self) -> float:
        if self._gone or (self.record.failure or ("",))[0] == "Evicted":
            return _FORCED_GRACE_S
        given = self.pod["metadata"].get("deletionGracePeriodSeconds")
        return float(given) if given is not None else self._own_grace_s()

    def _own_grace_s(self) -> float:
        given = self.pod["spec"].get("terminationGracePeriodSeconds")
        return 30.0 if given is None else float(given)

    # --- the pod's own deadline ---------------------------------------------------------------------------------------

    def _deadline_s(self) -> float | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or self._is_stopping():
            return None
        return dt.datetime.fromisoformat(self.record.start_time).timestamp() + float(seconds)

    def _check_deadline(self, now_s: float) -> None:
        """Record the failure of the pod if its deadline is exceeded. The record is written to disk before any container
        is stopped. Raises OSError."""
        deadline_s = self._deadline_s()
        if deadline_s is not None and now_s >= deadline_s:
            self.record = replace(self.record, failure=_DEADLINE)
            self.record.write(self._around.pod_dir(self.record.uid))
            self._around.tell.tell(self.pod, *_DEADLINE)

    # --- volumes ------------------------------------------------------------------------------------------------------

    async def _set_up_volumes(self) -> bool:
        """Set up the volumes before the first container starts. Return False if that is not possible now."""
        if any(one.known.state is not None for one in self.containers.values()):
            return True
        try:
            await self._volumes.set_up(self.pod, self._with_addresses())
        except (EnvironmentFault, ApiRefusal) as error:
            self._around.tell.tell(self.pod, "FailedMount", str(error), kind="Warning")
            retry_s = time.time() + self._around.settings.patience.config_retry_s
            for one in self.containers.values():
                waiting = Waiting(reason="ContainerCreating", message=str(error), retry_s=retry_s)
                one.known = replace(one.known, waiting=waiting)
            return False
        return True

    def _with_addresses(self) -> Object:
        """Return the pod as the downward API shows it, with its addresses, even if its status was not written yet."""
        host = self._around.settings.address
        addresses = {"hostIP": host, "hostIPs": [{"ip": host}]}
        addresses |= {"podIP": self.record.pod_ip, "podIPs": [{"ip": self.record.pod_ip}]}
        return {**self.pod, "status": {**(self.pod.get("status") or {}), **addresses}}

    # --- reports ------------------------------------------------------------------------------------------------------

    async def _report(self, found: Steps) -> None:
        """Write the status if it changed; the end of the pod is reported in the same way."""
        status = self._status.compute(self.pod, self.record, self.known(), over=found.done)
        if not self._gone:
            self._gone = not await self._status.write(self.pod, status)
        if found.done and (self._gone or self._status.written == status):
            self.holds = False
            self._volumes.remove()  # remove everything but the logs of an ended pod
            self._wake.set()

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _finish(self) -> float | None:
        """Delete the object of a deleted pod, once no process runs and the status has been written."""
        if "deletionTimestamp" not in self.pod["metadata"] or self._delete_sent or self._gone:
            return None
        meta = self.pod["metadata"]
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        try:
            await self._around.connection.delete(PODS, meta["name"], meta["namespace"], body)
            self._delete_sent = True
        except ApiRefusal as error:
            if error.code == 404 or error.reason == "Conflict":
                self._gone = True
                self._wake.set()
            else:
                log.warning("deleting pod %s/%s: %s", meta["namespace"], meta["name"], error)
                return time.time() + 10 * _RETRY_S
        except ApiError:
            return time.time() + _RETRY_S
        return None

    def _clean_up(self) -> None:
        self._volumes.remove()
        keep_logs(self._around, self.record)
        remove_tree(self._around.pod_dir(self.record.uid))

    async def _sleep(self, due_s: float | None) -> None:
        """Wait for an event, or until a step is due."""
        if self._wake.is_set():
            return
        pause_s = None if due_s is None else max(0.0, due_s - time.time())
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._wake.wait()


def keep_logs(around: Surroundings, record: PodRecord) -> None:
    """Move the logs of a deleted pod to the kept logs. If the disk has no space for this, the logs are deleted with the
    pod."""
    kept = KeptPod(
        namespace=record.namespace,
        pod=record.name,
        uid=record.uid,
        owner=record.owner,
        owner_uid=record.owner_uid,
        labels=record.labels,
        started_s=read_moment(record.start_time),
        ended_s=time.time(),
    )
    try:
        around.kept_logs.keep(kept, around.pod_dir(record.uid))
    except OSError as error:
        log.warning("the logs of pod %s/%s could not be kept: %s", record.namespace, record.name, error)


def _images(pod: Object) -> dict[str, str]:
    return {one["name"]: one["image"] for one in every_container(pod["spec"])}


def _will_restart(doomed: str) -> str:
    return f"{doomed.partition(':')[0].lower()}, will be restarted"
