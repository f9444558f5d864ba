"""The one write that places a pod: POST pods/NAME/binding.

It carries the pod's uid, so that a pod of the same name created since is never bound by it, and in its annotations,
which the API server copies to the pod in the same transaction, the devices that the pod is given, and for bare pods the
record of the start. A bare pod whose start has a time limit gets that before, as its own: its node stops it.
"""

from __future__ import annotations

from phalanx.client.connection import Connection, Object
from phalanx.client.kind import PODS
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import StartRecord
from phalanx.kube.write.writer import Verdict, Write


class BindPod(Write):
    def __init__(self, pod: Pod, node: str, record: StartRecord | None, devices: tuple[str, ...] = ()) -> None:
        self.key = f"pods/{pod.key}"
        self.pod, self.node, self.record, self.devices = pod, node, record, devices

    async def send(self, api: Connection) -> Object:
        meta: Object = {"name": self.pod.name, "namespace": self.pod.namespace, "uid": self.pod.uid}
        said = {labels.ADMITTED: self.record.text()} if self.record is not None else {}
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
        """It may only become shorter (ValidatePodUpdate)."""
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
