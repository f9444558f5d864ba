"""Compute the status of one pod from its containers, and write it to the API server if it has changed. Write the status
of a pod that the node rejects."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from phalanx.client.connection import STRATEGIC_PATCH, ApiRefusal, ApiUnknown, Object
from phalanx.client.kind import PODS
from phalanx.embedded.node.container.attempt import LOST, REBOOT, Exited
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.admission import Rejection, is_ephemeral
from phalanx.embedded.node.pod.cause import pod_cause
from phalanx.embedded.node.pod.lifecycle import Known
from phalanx.embedded.node.pod.record import PodRecord
from phalanx.embedded.node.pod.status import PodStatusFacts, pod_status, rejected

log = logging.getLogger(__name__)

_RETRY_S = 1.0


class PodStatusWriter:
    """Writes the status of one pod. `written`: the last written status; None if none was written."""

    def __init__(self, around: Surroundings) -> None:
        self.written: dict[str, object] | None = None
        self._around = around
        # container -> the numbers of restarts whose back-off was reported
        self._backed_off: dict[str, set[int]] = defaultdict(set)

    def compute(self, pod: Object, record: PodRecord, known: Mapping[str, Known], *, over: bool) -> dict[str, Any]:
        """Return the status of the pod. `over`: True if no container runs or will run again. The method also records an
        Event for each back-off before a restart."""
        place = PodStatusFacts(
            cause=pod_cause(pod, known) if over else "",
            disrupted=_disruption(record, {name: one for name, one in known.items() if not is_ephemeral(pod, name)}),
            pod_ip=record.pod_ip,
            host_ip=self._around.settings.address,
            start_time=record.start_time,
            failure=record.failure,
            back_off=self._around.back_off,
        )
        status = pod_status(pod, known, place, time.time(), over=over)
        self._tell_back_off(pod, status)
        return status

    async def write(self, pod: Object, status: dict[str, object]) -> bool:
        """Write the status if it changed. Return False if the pod's object does not exist any more. Raises
        ApiUnknown."""
        if status == self.written:
            return True
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            answer = await self._around.connection.patch(
                PODS, meta["name"], body, meta["namespace"], "status", STRATEGIC_PATCH
            )
        except ApiRefusal as error:
            # the pod was deleted, or another pod with the same name exists
            if error.code == 404 or error.reason == "Conflict":
                return False
            log.warning("status of pod %s/%s refused: %s", meta["namespace"], meta["name"], error)
            return True
        self._around.observe(answer)
        self.written = status
        return True

    def _tell_back_off(self, pod: Object, status: Mapping[str, Any]) -> None:
        for one in status["containerStatuses"]:
            waiting, told = one["state"].get("waiting") or {}, self._backed_off[one["name"]]
            if waiting.get("reason") != "CrashLoopBackOff" or one["restartCount"] in told:
                continue
            told.add(one["restartCount"])
            meta, part = pod["metadata"], f"spec.containers{{{one['name']}}}"
            text = f"Back-off restarting failed container {one['name']} in pod {meta['name']}_{meta['namespace']}"
            self._around.tell.tell(pod, "BackOff", f"{text}({meta['uid']})", kind="Warning", container=part)


async def write_rejection(around: Surroundings, pod: Object, rejection: Rejection) -> None:
    """Report that the node rejects the pod, in an Event and in the status of the pod. The write is repeated until the
    API server answers."""
    meta = pod["metadata"]
    around.tell.tell(pod, rejection.reason, rejection.message, kind="Warning")
    status = rejected(pod, rejection.reason, rejection.message, time.time())
    body = {"metadata": {"uid": meta["uid"]}, "status": status}
    while True:
        try:
            answer = await around.connection.patch(
                PODS, meta["name"], body, meta["namespace"], "status", STRATEGIC_PATCH
            )
            around.observe(answer)
            return
        except ApiRefusal as error:
            if error.code not in (404, 409):
                log.warning("rejecting pod %s/%s: %s", meta["namespace"], meta["name"], error)
            return
        except ApiUnknown:
            await asyncio.sleep(_RETRY_S)


def _disruption(record: PodRecord, known: Mapping[str, Known]) -> str:
    """Return the message of the pod's condition DisruptionTarget if the node ended the pod for a reason outside the
    pod; otherwise ""."""
    if record.failure is not None and record.disrupted:
        return record.failure[1]
    ends = (one.state for one in known.values())
    return next((end.message for end in ends if isinstance(end, Exited) and end.reason in (REBOOT, LOST)), "")
