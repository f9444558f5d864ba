"""The back-off of a Job before it replaces failed pods: 10 s, 20 s, 40 s … from the end of the last failure.

The count starts anew with each success (KEP-3850 for one index; k8s.io/kubernetes/pkg/controller/job for the Job). It
lives in memory only, as in kube-controller-manager: a restart forgets the delay, never a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from phalanx.client.connection import Object
from phalanx.embedded.controllers.runtime.pod_state import finished_at, index_failures_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The first delay and the longest one, in seconds."""

    first_s: float = 10.0
    most_s: float = 360.0

    def remaining_s(self, failures: int, last_s: float, now_s: float) -> float:
        """Return the remaining wait in seconds after `failures` failures in a row, of which the last was at
        `last_s`."""
        if failures == 0:
            return 0.0
        delay_s = min(self.first_s * 2.0 ** min(failures - 1, 30), self.most_s)
        return max(0.0, last_s + delay_s - now_s)

    def remaining_of_index_s(self, last_failed: Object | None, now_s: float) -> float:
        if last_failed is None:
            return 0.0
        return self.remaining_s(index_failures_all(last_failed) + 1, finished_at(last_failed), now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """Failures of a Job's pods since its last success."""

    failures: int = 0
    last_s: float = 0.0

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> Streak:
        """Return the streak after more pods have finished. It counts the failures after the newest success."""
        if not succeeded:
            if not failed:
                return self
            return replace(self, failures=self.failures + len(failed), last_s=max(map(finished_at, failed)))
        last_success_s = max(map(finished_at, succeeded))
        later = [end_s for end_s in map(finished_at, failed) if end_s > last_success_s]
        return Streak(failures=len(later), last_s=max(later, default=0.0))
