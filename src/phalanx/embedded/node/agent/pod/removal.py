"""Delete the object of a pod that has ended, keep the logs of a deleted pod, and end the processes of an orphan."""

from __future__ import annotations

import logging
import time
from enum import Enum, auto

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.kind import PODS
from phalanx.client.moment import read_moment
from phalanx.embedded.node.container.attempt import RunningAttempt, attempts
from phalanx.embedded.node.container.cgroup import remove
from phalanx.embedded.node.container.log.kept import KeptPod
from phalanx.embedded.node.machine.surroundings import VOLUMES, Surroundings
from phalanx.embedded.node.pod.record import PodRecord
from phalanx.embedded.node.pod.volumes import remove as remove_volumes

log = logging.getLogger(__name__)


class Deletion(Enum):
    """The result of the deletion of a pod's object at the API server. `GONE`: the object did not exist any more."""

    ACCEPTED = auto()
    GONE = auto()
    REFUSED = auto()
    UNKNOWN = auto()


async def delete_object(around: Surroundings, pod: Object) -> Deletion:
    """Delete the object of a pod without processes."""
    meta = pod["metadata"]
    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
    try:
        await around.connection.delete(PODS, meta["name"], meta["namespace"], body)
    except ApiRefusal as error:
        if error.code == 404 or error.reason == "Conflict":
            return Deletion.GONE
        log.warning("deleting pod %s/%s: %s", meta["namespace"], meta["name"], error)
        return Deletion.REFUSED
    except ApiError:
        return Deletion.UNKNOWN
    return Deletion.ACCEPTED


def keep_logs(around: Surroundings, record: PodRecord) -> None:
    """Move the logs of a deleted pod to the kept logs. If the disk is full, the logs are deleted with the pod."""
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


async def end_orphan(around: Surroundings, record: PodRecord) -> None:
    """End the processes of an orphan, a pod whose object was deleted while no agent ran. Keep its logs, and remove its
    files."""
    folder = around.pod_dir(record.uid)
    for container in (path for path in folder.iterdir() if path.is_dir() and path.name != VOLUMES):
        for attempt in attempts(container)[-1:]:
            if isinstance(attempt.settle(), RunningAttempt):
                log.info("pod %s/%s was deleted; its processes are ended", record.namespace, record.name)
                attempt.kill()
                await attempt.ended()
            remove(attempt.spec.cgroup_dirs)
    remove_volumes(folder / VOLUMES)
    keep_logs(around, record)
    remove_volumes(folder)
