"""Track the usage that no gang is charged for: pods of other schedulers, and the increase of Phalanx's resized pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from phalanx.kube.read.pod import Pod
from phalanx.model.event import Event, Occupied, Vacated
from phalanx.model.pod import Amounts, amounts


class ForeignPods:
    """The usage of foreign pods, as events. `pods`: the existing pods, by uid. `excess`: returns the part of a pod's
    usage that the core does not charge to a gang; None: the whole usage."""

    def __init__(self, pods: Mapping[str, Pod], excess: Callable[[Pod], Amounts | None]) -> None:
        self._pods, self._excess = pods, excess
        self._touched: dict[str, None] = {}  # pods whose usage may have changed
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
    """Return the usage of a foreign pod, and its labels. A device of which the pod has a part counts as a whole,
    because only the pod's own scheduler knows the part."""
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
        resident=pod.resident,
    )
