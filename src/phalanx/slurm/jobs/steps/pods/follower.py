"""End a component of a heterogeneous job when the first component, which runs the script, has ended.

The end of a connection to the first component's daemon triggers a check of the first component's Job. So a daemon that
has not started yet, or that died alone, ends no component.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import Api, Refused
from phalanx.slurm.jobs.names import path_of
from phalanx.slurm.jobs.steps.pods import channel
from phalanx.slurm.jobs.steps.pods.place import allocation

_AGAIN_S, _TRY_S = 0.3, 1.0


def follow(first: int, end: Callable[[int], None]) -> None:
    """Call `end` once the job of that number has ended, and return. A thread runs this function."""
    while True:
        with suppress(PhalanxError, OSError):
            api = Api.open()
            if _over(api, first):
                end(0)
                return
            place = allocation(api, first, _TRY_S)
            link = place.channel(place.head, _TRY_S)
            link.send(channel.STAY)
            link.receive()
            with suppress(OSError):
                link.receive()  # no frame arrives; the connection breaks when that pod ends
            link.close()
        time.sleep(_AGAIN_S)  # the followed pod has not started yet, or restarts


def _over(api: Api, number: int) -> bool:
    try:
        job = api.get(path_of(number))
    except Refused as error:
        return error.code == 404
    conditions = (job.get("status") or {}).get("conditions") or ()
    ended = any(one.get("status") == "True" and one.get("type") in ("Complete", "Failed") for one in conditions)
    return ended or job["metadata"].get("deletionTimestamp") is not None
