"""Write the node that is planned for a pod on the pod's volume claim, so that the volume is created for that node."""

from __future__ import annotations

from phalanx.client.connection import Connection, Object
from phalanx.client.kind import VOLUME_CLAIMS
from phalanx.kube.read import labels
from phalanx.kube.write.writer import Verdict, Write

SELECTED_NODE = "volume.kubernetes.io/selected-node"


class SelectNode(Write):
    """Write the node of the pod that waits for the claim, so that the claim's provisioner creates the volume for that
    node."""

    def __init__(self, claim: Object, node: str) -> None:
        meta = claim["metadata"]
        self.key = f"claims/{meta['namespace']}/{meta['name']}"
        self.claim, self.node = claim, node

    async def send(self, api: Connection) -> Object:
        meta = self.claim["metadata"]
        body = {"metadata": {"uid": meta["uid"], "annotations": {SELECTED_NODE: self.node}}}
        return await api.patch(VOLUME_CLAIMS, meta["name"], body, meta["namespace"], fieldManager=labels.FIELD_MANAGER)

    async def read(self, api: Connection) -> Object:
        return await api.get(VOLUME_CLAIMS, self.claim["metadata"]["name"], self.claim["metadata"]["namespace"])

    def judge(self, obj: Object) -> Verdict:
        if obj["metadata"]["uid"] != self.claim["metadata"]["uid"]:
            return Verdict.GONE
        bound = (obj.get("status") or {}).get("phase") == "Bound"
        written = (obj["metadata"].get("annotations") or {}).get(SELECTED_NODE) == self.node
        return Verdict.ACHIEVED if bound or written else Verdict.AGAIN
