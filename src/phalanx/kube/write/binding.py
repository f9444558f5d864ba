"""The writes that place a pod: bind the pod, or remove the scheduling gate of a pod that another scheduler binds.

The request POST pods/NAME/binding contains the pod's uid, so that it never binds a newer pod of the same name. The API
server copies the annotations of the binding to the pod in the same transaction. These annotations are the devices of
the pod and, for bare pods, the record of the start. If the start of a bare pod has a time limit, Phalanx writes the
limit to the pod before it binds the pod, so that the kubelet stops the pod in time.

In *pinned mode*, Phalanx plans the pods of a Job that names another scheduler, and that scheduler binds them.
`spec.template.spec.schedulerName` cannot be changed, and Phalanx never binds another scheduler's pods. So the PATCH
that resumes such a Job adds a scheduling gate to its template: the pods are created with this gate, and their scheduler
ignores gated pods. When all pods of the gang can be bound, Phalanx sends one PATCH for each pod, which removes the gate
and adds the name of the planned node to the pod's required node affinity. The other scheduler can then bind the pod to
this node only. The API server allows both changes in one write while the pod has a scheduling gate (KEP-3838). The API
server allows only changes that make each existing term of the affinity stricter, so the name is added to every term.
The annotation `phalanx.dev/pinned` also names the node, so that Phalanx can read it after a restart.

A *stand-in* is a pod that exists only inside the scheduler and represents an object of another kind. Phalanx writes the
placement of a stand-in into the status of that object.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.client.connection import Connection, Object
from phalanx.client.kind import PODS
from phalanx.dialects.frame.dialect import StandIn
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import StartRecord, read_start_record
from phalanx.kube.write.writer import Verdict, Write

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NOTHING: Mapping[str, str] = {}


class BindPod(Write):
    """The write that binds a pod to a node. `said`: additional annotations for the pod."""

    def __init__(
        self,
        pod: Pod,
        node: str,
        record: StartRecord | None,
        devices: tuple[str, ...] = (),
        said: Mapping[str, str] = NOTHING,
    ) -> None:
        self.key = f"pods/{pod.key}"
        self.pod, self.node, self.record, self.devices, self.said = pod, node, record, devices, said

    async def send(self, api: Connection) -> Object:
        meta: Object = {"name": self.pod.name, "namespace": self.pod.namespace, "uid": self.pod.uid}
        said = {**self.said}
        said |= {labels.ADMITTED: self.record.text()} if self.record is not None else {}
        said |= {labels.DEVICES: ",".join(self.devices)} if self.devices else {}
        if said:
            meta["annotations"] = said
        if self.record is not None and self.record.limit_s is not None:
            await self._limit(api, max(1, round(self.record.limit_s)))
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        }
        return await api.create(PODS, body, self.pod.namespace, "binding", self.pod.name)

    async def _limit(self, api: Connection, limit_s: int) -> None:
        """Shorten the pod's time limit. The API server does not allow a longer limit (ValidatePodUpdate)."""
        if self.pod.active_s is None or limit_s < self.pod.active_s:
            body = {"metadata": {"uid": self.pod.uid}, "spec": {"activeDeadlineSeconds": limit_s}}
            await api.patch(PODS, self.pod.name, body, self.pod.namespace, fieldManager=labels.FIELD_MANAGER)

    async def read(self, api: Connection) -> Object:
        return await api.get(PODS, self.pod.name, self.pod.namespace)

    def judge(self, obj: Object) -> Verdict:
        node = obj["spec"].get("nodeName")
        if obj["metadata"]["uid"] != self.pod.uid or "deletionTimestamp" in obj["metadata"]:
            return Verdict.GONE
        if node:
            return Verdict.ACHIEVED if node == self.node else Verdict.LOST
        return Verdict.AGAIN


class SendPod(Write):
    """A write to a bare pod that runs in another cluster: the pod's object in this cluster gets the record that its
    gang was started there. The pod is not bound in this cluster. `record`: the record of the start; None to remove the
    record after the start was undone. `obj`: the newest known state of the pod."""

    def __init__(self, pod: Pod, record: StartRecord | None, obj: Object) -> None:
        self.key = f"pods/{pod.key}"
        self.pod, self.record, self.obj = pod, record, obj

    async def send(self, api: Connection) -> Object:
        said: dict[str, str | None] = {labels.ADMITTED: None}
        if self.record is not None:
            before = _annotations(self.obj).get(labels.SENT_TO, "").split()
            said = {
                labels.ADMITTED: self.record.text(),
                labels.SENT_TO: " ".join(dict.fromkeys((*before, self.record.cluster))),
            }
        body = {"metadata": {"uid": self.pod.uid, "annotations": said}}
        return await api.patch(PODS, self.pod.name, body, self.pod.namespace, fieldManager=labels.FIELD_MANAGER)

    async def read(self, api: Connection) -> Object:
        return await api.get(PODS, self.pod.name, self.pod.namespace)

    def judge(self, obj: Object) -> Verdict:
        if obj["metadata"]["uid"] != self.pod.uid or "deletionTimestamp" in obj["metadata"]:
            return Verdict.GONE
        self.obj = obj
        return Verdict.ACHIEVED if read_start_record(_annotations(obj)) == self.record else Verdict.AGAIN


def _annotations(obj: Object) -> dict[str, str]:
    found: dict[str, str] = (obj.get("metadata") or {}).get("annotations") or {}
    return found


class PinPod(Write):
    """The write that removes the pod's scheduling gate and restricts the pod to the planned node. `obj`: the newest
    known state of the pod."""

    def __init__(self, pod: Pod, node: str, obj: Object, devices: tuple[str, ...] = ()) -> None:
        self.key = f"pods/{pod.key}"
        self.pod, self.node, self.obj, self.devices = pod, node, obj, devices

    async def send(self, api: Connection) -> Object:
        body = {
            "metadata": {
                "uid": self.pod.uid,
                "resourceVersion": self.obj["metadata"]["resourceVersion"],
                "annotations": {
                    labels.PINNED: self.node,
                    **({labels.DEVICES: ",".join(self.devices)} if self.devices else {}),
                },
            },
            "spec": {
                "schedulingGates": without_gate(self.obj["spec"].get("schedulingGates")),
                "affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": _narrowed(self.obj, self.node)}}},
            },
        }
        return await api.patch(PODS, self.pod.name, body, self.pod.namespace, fieldManager=labels.FIELD_MANAGER)

    async def read(self, api: Connection) -> Object:
        return await api.get(PODS, self.pod.name, self.pod.namespace)

    def judge(self, obj: Object) -> Verdict:
        meta, spec = obj["metadata"], obj["spec"]
        if meta["uid"] != self.pod.uid or "deletionTimestamp" in meta:
            return Verdict.GONE
        if not gated(spec):
            is_bound = labels.option(meta, labels.PINNED) == self.node and spec.get("nodeName", self.node) == self.node
            return Verdict.ACHIEVED if is_bound else Verdict.LOST
        self.obj = obj
        return Verdict.AGAIN


class PlaceStandIn(Write):
    """The write that places a stand-in (a pod that represents an object of another kind): the chosen node is written
    into the status of that object. `status`: the fields to write; other fields of the object's status stay
    unchanged."""

    def __init__(self, stand_in: StandIn, status: Object) -> None:
        self.key = f"{stand_in.kind.plural}/{stand_in.key}"
        self.stand_in, self.status = stand_in, status
        self._space, _, self._name = stand_in.key.rpartition("/")

    async def send(self, api: Connection) -> Object:
        body = {"metadata": {"uid": self.stand_in.pod["metadata"]["uid"]}, "status": self.status}
        kind, manager = self.stand_in.kind, labels.FIELD_MANAGER
        return await api.patch(kind, self._name, body, self._space, subresource="status", fieldManager=manager)

    async def read(self, api: Connection) -> Object:
        return await api.get(self.stand_in.kind, self._name, self._space)

    def judge(self, obj: Object) -> Verdict:
        meta, old_status = obj["metadata"], obj.get("status") or {}
        if meta["uid"] != self.stand_in.pod["metadata"]["uid"] or "deletionTimestamp" in meta:
            return Verdict.GONE
        written = all(old_status.get(name) == said for name, said in self.status.items())
        return Verdict.ACHIEVED if written else Verdict.AGAIN


def gated(spec: Object) -> bool:
    return any(gate["name"] == labels.GATE for gate in spec.get("schedulingGates") or ())


def with_gate(gates: list[Object] | None) -> list[Object]:
    return [*without_gate(gates), {"name": labels.GATE}]


def without_gate(gates: list[Object] | None) -> list[Object]:
    return [gate for gate in gates or () if gate["name"] != labels.GATE]


def _narrowed(obj: Object, node: str) -> list[Object]:
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = (obj["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    return [{**term, "matchFields": [*(term.get("matchFields") or ()), here]} for term in terms]
