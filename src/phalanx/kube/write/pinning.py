"""Pinned mode: the pods of a Job that names another scheduler are planned here, and bound by that scheduler.

`spec.template.spec.schedulerName` cannot be changed, and pods that are not ours we never bind. So the PATCH that
resumes such a Job puts a scheduling gate into its template: its pods come to exist, and their scheduler passes them by.
At the barrier one PATCH per pod takes the gate away and adds the planned node's name to its required node affinity: now
that scheduler can bind it there, or nowhere. The API server allows both at once while the pod is gated (KEP-3838):
terms that a pod has may only become narrower, so the name is added to each of them.

The node stands in `phalanx.dev/pinned` on the pod as well, for whoever comes after a restart.
"""

from __future__ import annotations

from phalanx.client.connection import Connection, Object
from phalanx.client.kind import PODS
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.write.writer import Verdict, Write

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class PinPod(Write):
    """Let the pod go, to this node only. `obj` is its newest known state."""

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
            ours = labels.option(meta, labels.PINNED) == self.node and spec.get("nodeName", self.node) == self.node
            return Verdict.ACHIEVED if ours else Verdict.LOST
        self.obj = obj
        return Verdict.AGAIN


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
