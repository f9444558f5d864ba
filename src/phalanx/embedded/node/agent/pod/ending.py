"""Decide why and when a pod must end, and how much time its programs get to stop. The decisions depend only on the
pod's object, on the record of the pod on this node, and on whether the object still exists.

A pod must end if its object is deleted, if the node ends it (because of its deadline or its disk usage), or if another
component has set its phase (after a drain, or for a lost node)."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from phalanx.client.connection import Object
from phalanx.embedded.node.pod.cause import deletion_cause
from phalanx.embedded.node.pod.record import PodRecord
from phalanx.embedded.node.pod.status import TERMINAL

EVICTED = "Evicted"
DEADLINE = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
_FORCED_GRACE_S = 1.0  # the grace period of an evicted pod, and of a pod whose object does not exist any more


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnding:
    """The end of a pod. `is_gone`: True if the pod's object does not exist any more."""

    pod: Object
    record: PodRecord
    is_gone: bool

    @property
    def is_deleted(self) -> bool:
        return self.is_gone or "deletionTimestamp" in self.pod["metadata"]

    @property
    def must_end(self) -> bool:
        return self.is_deleted or self.record.failure is not None or is_over(self.pod)

    @property
    def cause(self) -> str:
        """Return the reason why the remaining containers are stopped."""
        if self.record.failure is not None:
            return self.record.failure[1]
        if self.is_deleted:
            return deletion_cause(self.pod)
        if is_over(self.pod):
            status = self.pod["status"]
            return f"the pod was ended: {status.get('message') or status.get('reason') or 'nobody said why'}"
        return "the pod's other containers had ended"

    @property
    def grace_s(self) -> float:
        """Return the time that the programs get to stop."""
        if self.is_gone or (self.record.failure or ("",))[0] == EVICTED:
            return _FORCED_GRACE_S
        given = self.pod["metadata"].get("deletionGracePeriodSeconds")
        return float(given) if given is not None else own_grace_s(self.pod)

    @property
    def deadline_s(self) -> float | None:
        """Return the Unix time at which the pod exceeds its own deadline; None without a deadline, or if the pod must
        end for another reason."""
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or self.must_end:
            return None
        return dt.datetime.fromisoformat(self.record.start_time).timestamp() + float(seconds)


def is_over(pod: Object) -> bool:
    """Return whether the pod's status states that the pod has ended."""
    return (pod.get("status") or {}).get("phase") in TERMINAL


def own_grace_s(pod: Object) -> float:
    """Return the grace period that the pod's spec states."""
    given = pod["spec"].get("terminationGracePeriodSeconds")
    return 30.0 if given is None else float(given)
