"""Delete the object of a pod that has ended, and keep the logs of a deleted pod."""

from __future__ import annotations

import logging
import time
from enum import Enum, auto

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.kind import PODS
from phalanx.client.moment import read_moment
from phalanx.embedded.node.container.log.kept import KeptPod
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.record import PodRecord

log = logging.getLogger(__name__)


class Deletion(Enum):
    """The answer of the API server to the deletion of a pod's object. `GONE`: the object did not exist any more."""

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
