"""Track the resource usage on nodes that is charged to no gang. This is the usage of other schedulers' pods, and the
additional usage of Phalanx's pods whose requests were raised in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from phalanx.kube.read.pod import Pod
from phalanx.model.event import Event, Occupied, Vacated
from phalanx.model.pod import Amounts, amounts


class ForeignPods:
    """The resource usage on nodes that the core charges to no gang. Each change of this usage is passed to the core as
    an event. `touched`: the pods whose usage may have changed. `pods`: the existing pods, by uid. `excess`: a function
    that returns the part of a pod's usage that exceeds the amount charged to its gang; None if the pod is charged to no
    gang."""

    def __init__(self, pods: Mapping[str, Pod], excess: Callable[[Pod], Amounts | None]) -> None:
        self._pods, self._excess = pods, excess
        self.touched: dict[str, None] = {}
        self._told: dict[str, Occupied] = {}

    def events(self) -> Iterator[Event]:
        """Yield the events about nodes' foreign usage that has changed since the last call."""
        touched, self.touched = self.touched, {}
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
    """Return the usage and the labels of a foreign pod. If the pod uses only a share of a device, the whole device
    counts as used, because only the pod's own scheduler knows which share."""
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
