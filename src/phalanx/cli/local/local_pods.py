"""The pods that are real processes on this machine, and their nodes."""

from __future__ import annotations

from phalanx.client.connection import Connection, Object
from phalanx.client.kind import NODES, PODS


async def running_pods(connection: Connection) -> list[Object]:
    """Pods with processes on this machine: bound to a node that is not simulated, and not over."""
    nodes = (await connection.list(NODES))["items"]
    real = {node["metadata"]["name"] for node in nodes if not is_simulated(node)}
    pods = (await connection.list(PODS))["items"]
    return [pod for pod in pods if pod["spec"].get("nodeName") in real and not _over(pod)]


def is_simulated(node: Object) -> bool:
    return str((node["metadata"].get("labels") or {}).get("phalanx.dev/simulated", "")).lower() == "true"


async def cordon(connection: Connection, nodes: list[str], *, unschedulable: bool) -> None:
    """Set whether nodes accept pods, as `kubectl cordon` and `uncordon` do."""
    for name in nodes:
        await connection.patch(NODES, name, {"spec": {"unschedulable": unschedulable or None}})


def _over(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
