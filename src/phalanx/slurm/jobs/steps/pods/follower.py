"""End a component of a heterogeneous job when the first component, which runs the script, has ended.

When the connection to the step daemon of the first component ends, this module reads the Job of the first component
again. The component ends only if this Job has ended. So it continues if the daemon has not started yet, or has died
while the first component still runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.steps.pods import channel
from phalanx.slurm.jobs.steps.pods.place import allocation

_AGAIN_S, _TRY_S = 0.3, 1.0


def follow(first: int, end: Callable[[int], None]) -> None:
    """Wait until the job with the number `first` has ended. Then call `end` with exit code 0, and return. The step
    daemon runs this function in a thread."""
    while True:
        with suppress(PhalanxError, OSError):
            api = ApiClient.open()
            if _over(api, first):
                end(0)
                return
            place = allocation(api, first, _TRY_S)
            link = place.channel(place.head, _TRY_S)
            link.send(channel.STAY)
            link.receive()
            with suppress(OSError):
                link.receive()  # the daemon sends no further frame; the connection ends with the pod
            link.close()
        time.sleep(_AGAIN_S)  # the pod of the first component has not started yet, or is being replaced


def _over(api: ApiClient, number: int) -> bool:
    try:
        job = api.get(path_of(number))
    except RequestRefused as error:
        return error.code == 404
    conditions = (job.get("status") or {}).get("conditions") or ()
    ended = any(one.get("status") == "True" and one.get("type") in ("Complete", "Failed") for one in conditions)
    return ended or job["metadata"].get("deletionTimestamp") is not None
