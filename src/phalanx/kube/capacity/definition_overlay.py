"""Apply the definitions of dialects (such as another scheduler's queues and reservations) to the nodes and pods that
the core sees.

Definitions may add topology labels, NUMA zones and devices to nodes. They may also reserve parts of nodes for certain
pods (`node_parts`), and add options and requests to pods. Some objects, such as reservations, need capacity on a node
although they are not pods. Phalanx represents such an object by a *stand-in*: a pod that exists only inside Phalanx, so
that the scheduler can choose a node for the object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace

import msgspec

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.kind import PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.frame.dialect import Definitions, DeviceAsk, NodePart, StandIn
from phalanx.kube.capacity.node_parts import in_parts, node_and_part, split
from phalanx.kube.read.labels import PART
from phalanx.kube.read.pod import Pod
from phalanx.model.node import Node
from phalanx.model.pod import amounts
from phalanx.model.reason import Reason, ReasonCode

_NOTHING: Mapping[str, str] = {}


class DefinitionOverlay:
    """Apply the definitions of dialects (another scheduler's objects, such as queues and reservations) to nodes and
    pods. `defined`: a map from a dialect to its definitions; the caller keeps the map up to date. `objects`: a function
    that returns the objects of a kind, or None if the API server does not serve the kind. `stand_ins`: a map from an
    object's uid to its dialect and its stand-in."""

    def __init__(
        self,
        defined: Mapping[str, Definitions],
        objects: Callable[[Kind], Mapping[str, Object] | None],
        clock: Callable[[], float],
    ) -> None:
        self._defined, self._objects, self._clock = defined, objects, clock
        self.stand_ins: dict[str, tuple[str, StandIn]] = {}
        self._parts: dict[str, NodePart] = {}
        self._about_pods: tuple[Definitions, ...] = ()  # the definitions that affect single pods

    def refresh(self) -> None:
        """Update the data that this object derives from the definitions of dialects. The caller calls this method
        whenever a definition has changed."""
        self._about_pods = tuple(each for each in self._defined.values() if each.about_pods)
        self._parts = {part.name: part for each in self._defined.values() for part in each.parts}

    def changed_pods(self, dialect: str, before: Definitions, now: Definitions) -> Iterable[Change]:
        """Yield a `Change` for each pod that the core must read again, because a dialect's new definitions (`now`)
        differ from the earlier ones (`before`)."""
        old, new = ({str(one.pod["metadata"]["uid"]): one for one in each.stand_ins} for each in (before, now))
        for uid in old | new:
            if old.get(uid) != new.get(uid):
                self.stand_ins.pop(uid, None)
                if uid in new:
                    self.stand_ins[uid] = (dialect, new[uid])
                pods = [one.pod if one is not None else None for one in (old.get(uid), new.get(uid))]
                yield Change(kind=PODS, old=pods[0], new=pods[1])
        if _about_pods(before) == _about_pods(now):
            return
        for pod in (self._objects(PODS) or {}).values():
            is_in_part = PART in (pod["metadata"].get("annotations") or {})
            other_use = _said_of(before, pod) != _said_of(now, pod)
            waits = "nodeName" not in pod["spec"]  # the options of a pod on a node no longer change
            if is_in_part or other_use or (waits and before.pod_options(pod) != now.pod_options(pod)):
                yield Change(kind=PODS, old=pod, new=pod)

    def as_defined(self, pod: Pod, obj: Object) -> Pod:
        """Return the pod with everything that the definitions of dialects add to it: further options, requests for
        devices, the reserved parts of nodes that the pod may use, and the part in which it runs."""
        if pod.uid in self.stand_ins:
            asks = self.stand_ins[pod.uid][1].asks
            return msgspec.structs.replace(pod, stands_in=True, shape=replace(pod.shape, requests=asks))
        if not pod.ours or not self._about_pods:
            return pod
        use = None
        for each in self._about_pods:
            if said := each.pod_options(obj):
                pod = msgspec.structs.replace(pod, options={**pod.options, **said})
            if (asked := each.device_ask(obj)) is not None:
                pod = _with_devices(pod, asked)
            use = use or each.part_use(obj)
            if pod.node and not pod.devices:
                pod = msgspec.structs.replace(pod, devices=each.devices_given(obj))
        name = (obj["metadata"].get("annotations") or _NOTHING).get(PART, "")
        return in_parts(pod, use, name, self._parts.get(name))

    def at_binding(self, pod: Object, node: str, part: str, devices: tuple[str, ...]) -> Mapping[str, str]:
        """Return the annotations that a pod gets with its binding. `part`: the reserved part of the node in which the
        pod is placed; "" for a whole node. `devices`: the devices of the node that the pod gets."""
        found = {PART: part} if part else dict[str, str]()
        for each in self._defined.values():
            found |= each.at_binding(pod, node, part, devices)
        return found

    def placed(self, uid: str, node: str) -> tuple[StandIn, Object] | None:
        """Return the stand-in with this uid (a pod that represents another object), and the status that this object
        gets when the stand-in is placed on the node. Return None if no stand-in has the uid."""
        if uid not in self.stand_ins:
            return None
        name, stand_in = self.stand_ins[uid]
        return stand_in, self._defined[name].placed(stand_in, node_and_part(node)[0], write_moment(self._clock()))

    def split(self, node: Node) -> Iterable[Node]:
        """Return the node without its reserved parts, and one further node for each part."""
        return split(node, [part for part in self._parts.values() if part.node == node.name])

    def with_places(self, node: Node) -> Node:
        """Return the node with the topology labels, NUMA zones and devices that the definitions of dialects declare for
        it."""
        found, zones, devices = dict[str, str](), node.zones, node.devices
        for each in self._defined.values():
            found |= each.node_labels(node.name, dict(node.labels))
            zones = zones or each.node_zones(node.name)
            listed = {device.resource for device in devices}
            devices += tuple(one for one in each.node_devices(node.name) if one.resource not in listed)
        if not found and zones is node.zones and devices == node.devices:
            return node
        has = dict(node.allocatable)
        if devices != node.devices:  # if the node has no allocatable amount of the resource, count its devices
            has = {**Counter(device.resource for device in devices), **has}
        said = tuple(sorted({**dict(node.labels), **found}.items()))
        return replace(node, labels=said, zones=zones, devices=devices, allocatable=amounts(has))


def _about_pods(defined: Definitions) -> Hashable:
    """Return those settings of the dialect's definitions that affect single pods. If two versions of the definitions
    have equal settings of this kind, the pods need not be read again."""
    return defined.about_pods, defined.parts, defined.topology_key(), defined.options_key()


def _said_of(defined: Definitions, pod: Object) -> Hashable:
    """Return what a dialect's definitions declare for this pod: the reserved parts of nodes that the pod may use, the
    devices that it requests, and the devices that it has."""
    return defined.part_use(pod), defined.device_ask(pod), defined.devices_given(pod)


def _with_devices(pod: Pod, asked: DeviceAsk) -> Pod:
    if asked.wrong:
        return msgspec.structs.replace(pod, obstacle=Reason(code=ReasonCode.INVALID, text=asked.wrong))
    others = {name: amount for name, amount in pod.shape.requests if name not in asked.instead}
    for name, amount in asked.whole:
        others[name] = others.get(name, 0) + amount
    share, aligned = asked.share or pod.shape.share, pod.shape.aligned or asked.aligned
    return msgspec.structs.replace(
        pod, shape=replace(pod.shape, requests=amounts(others), share=share, aligned=aligned)
    )
