"""What pods hold that no gang of ours is charged for: pods of others, and what a resized pod of ours costs beyond."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from phalanx.kube.read.pod import Pod
from phalanx.model.event import Event, Occupied, Vacated
from phalanx.model.pod import Amounts, amounts


class ForeignPods:
    """`pods`: those that exist, by uid. `excess`: what of a pod the core does not charge through a gang; None: all."""

    def __init__(self, pods: Mapping[str, Pod], excess: Callable[[Pod], Amounts | None]) -> None:
        self._pods, self._excess = pods, excess
        self._touched: dict[str, None] = {}  # pods of which something else may be held
        self._told: dict[str, Occupied] = {}

    def touch(self, uid: str) -> None:
        self._touched[uid] = None

    def events(self) -> Iterator[Event]:
        """Yield what changed since the last time."""
        touched, self._touched = self._touched, {}
        for uid in touched:
            held = self._held(uid)
            if held == self._told.get(uid):
                continue
            if held is None:
                del self._told[uid]
                yield Vacated(uid)
            else:
                self._told[uid] = held
                yield held

    def _held(self, uid: str) -> Occupied | None:
        pod = self._pods.get(uid)
        if pod is None or not pod.charged:
            return None
        excess = self._excess(pod)
        if excess is None:
            return _occupying(pod)
        return Occupied(uid, pod.node, excess) if excess else None


def _occupying(pod: Pod) -> Occupied:
    """Return what a pod that is not ours holds, and what others see of it. A device of which it was given a part counts
    as a whole one: what the part is, its own scheduler knows."""
    shape, held, devices = pod.shape, dict(pod.requests), pod.devices if pod.ours else ()
    if devices and shape.share is not None:
        held[shape.share.resource] = held.get(shape.share.resource, 0) + shape.share.count
    return Occupied(
        pod.uid,
        pod.where,
        amounts(held),
        labels=shape.labels,
        namespace=shape.namespace,
        ports=shape.ports,
        near=shape.near,
        away=shape.away,
        devices=devices,
    )
