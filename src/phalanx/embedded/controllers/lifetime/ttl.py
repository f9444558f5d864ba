"""ttlSecondsAfterFinished: delete a finished Job with its pods this many seconds after its end (KEP-592)."""

from __future__ import annotations

import time

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import JOBS
from phalanx.embedded.controllers.runtime.calls import Calls, Clock
from phalanx.embedded.controllers.runtime.pod_state import condition, is_deleting
from phalanx.embedded.controllers.runtime.timestamp import seconds
from phalanx.embedded.controllers.runtime.work_queue import Retry, WorkQueue


class TtlController:
    """Call `start`, then run `queue`."""

    def __init__(self, calls: Calls, *, retry: Retry | None = None, clock: Clock = time.time) -> None:
        self._calls, self._clock = calls, clock
        self._jobs = calls.cache(JOBS)
        self.queue = WorkQueue("job ttl", self._look, workers=5, retry=retry)

    def start(self) -> None:
        self._jobs.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.new is not None and (expires_s := expiry(change.new)) is not None:
            self.queue.add_after(key_of(change.new), expires_s - self._clock())

    async def _look(self, key: str) -> None:
        job = self._jobs.objects.get(key)
        expires_s = expiry(job) if job is not None else None
        if job is None or expires_s is None:
            return
        if (left_s := expires_s - self._clock()) > 0:
            self.queue.add_after(key, left_s)
            return
        try:  # exactly this version: the time to live may have been raised in between
            await self._calls.delete(JOBS, job, policy="Foreground", exact=True)
        except ApiRefusal as refusal:
            if refusal.code == 409:
                await self._calls.get(JOBS, job["metadata"]["name"], job["metadata"]["namespace"])
                self.queue.add_after(key, 0.05)
            elif refusal.code != 404:
                raise


def expiry(job: Object) -> float | None:
    """Return the time at which the finished Job is deleted, in seconds since the epoch; None: never, or not yet
    known."""
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None or is_deleting(job):
        return None
    for kind in ("Complete", "Failed"):
        entry = condition(job, kind)
        if entry is not None and entry.get("status") == "True" and entry.get("lastTransitionTime"):
            return seconds(entry["lastTransitionTime"]) + float(ttl_s)
    return None
