"""The pods of a bound gang that have not been ready yet, where its queue limits how long that may take."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.kube.read.pod import Pod


class Readiness:
    """`bound_s`: when the last pod of the minimum was bound (seconds since the epoch)."""

    def __init__(self, bound_s: float, unready: Iterable[str] = ()) -> None:
        self.bound_s = bound_s
        self._unready = dict.fromkeys(unready)

    def see(self, pod: Pod) -> bool:
        """Note that the pod is ready, if it is. Return whether all pods are ready now."""
        if not pod.ready or not self._unready:
            return False
        self._unready.pop(pod.uid, None)
        return not self._unready

    def lose(self, uid: str) -> None:
        """Note that the pod is over or gone."""
        self._unready.pop(uid, None)

    def ends_s(self, limit_s: float | None) -> float:
        """Return the time at which the start is taken back unless all pods are ready; 0: never. `limit_s`: the time
        that the queue allows; None: no limit."""
        return self.bound_s + limit_s if self._unready and limit_s is not None else 0.0

    def take_late(self) -> list[str]:
        """Return the pods that are not ready, and wait for none of them any more."""
        late, self._unready = list(self._unready), {}
        return late
