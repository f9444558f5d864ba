"""List the pods that are real processes on this machine, and end them as `kubectl drain` does."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.kube.read.labels import ADMITTED
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.adapter import BATCH_JOB, FRAMEWORK_KINDS, JobAdapter
from phalanx.kube.read.workload.ancestors import Ancestors


async def running_pods(connection: Connection) -> list[Object]:
    """Return the pods with processes on this machine: all pods that have not ended and are bound to a node that is not
    simulated."""
    nodes = (await connection.list(NODES))["items"]
    real = {node["metadata"]["name"] for node in nodes if not is_simulated(node)}
    pods = (await connection.list(PODS))["items"]
    return [pod for pod in pods if pod["spec"].get("nodeName") in real and not _over(pod)]


def is_simulated(node: Object) -> bool:
    return str((node["metadata"].get("labels") or {}).get("phalanx.dev/simulated", "")).lower() == "true"


# The annotation "true" marks a node that Phalanx cordoned. Nodes that a user cordoned stay cordoned.
_CORDONED = "phalanx.dev/cordoned-for-stop"


async def cordon(connection: Connection, nodes: list[str]) -> None:
    """Mark nodes as unschedulable, as `kubectl cordon` does, until `uncordon`. A node that is unschedulable already is
    not changed."""
    for name in nodes:
        node = await connection.get(NODES, name)
        if not (node.get("spec") or {}).get("unschedulable"):
            change = {"metadata": {"annotations": {_CORDONED: "true"}}, "spec": {"unschedulable": True}}
            await connection.patch(NODES, name, change)


async def uncordon(connection: Connection) -> None:
    """Undo `cordon`: mark its nodes as schedulable again. If `phalanx up` was killed while it ended pods, such nodes
    still exist at its next start."""
    for node in (await connection.list(NODES))["items"]:
        if _CORDONED in (node["metadata"].get("annotations") or {}):
            change = {"metadata": {"annotations": {_CORDONED: None}}, "spec": {"unschedulable": None}}
            await connection.patch(NODES, node["metadata"]["name"], change)


def _over(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


_PATIENCE_S = 60.0
_LOOK_S = 0.2


async def drain(connection: Connection, tell: Callable[[str], None]) -> int:
    """End all pods on this machine, and return their number. The nodes of this machine stay cordoned until `uncordon`
    is called, so no other pod starts on them. Jobs and training jobs are suspended, so that they return to their queue
    and the end of their pods does not count as a failure. Pods without such a job are deleted. The function waits at
    most `_PATIENCE_S` until the pods have ended, and calls `tell` with a text about the remaining pods. A pod that is
    bound during this time is ended too."""
    ended: set[str] = set()  # the uids of the pods whose end was requested
    cordoned: set[str] = set()
    deadline_s = math.inf
    while (left := await running_pods(connection)) and time.monotonic() <= deadline_s:
        # A pod may be bound until its node is cordoned, so the pods are listed again afterwards.
        if nodes := {pod["spec"]["nodeName"] for pod in left} - cordoned:
            await cordon(connection, sorted(nodes))
            cordoned |= nodes
        elif new := [pod for pod in left if pod["metadata"]["uid"] not in ended]:
            await _end(connection, new)
            ended |= {pod["metadata"]["uid"] for pod in new}
            deadline_s = min(deadline_s, time.monotonic() + _PATIENCE_S)
        else:
            await asyncio.sleep(_LOOK_S)
    if left:
        names = ", ".join(pod["metadata"]["name"] for pod in left)
        are = "1 pod is" if len(left) == 1 else f"{len(left)} pods are"
        tell(f"{are} still ending after {_PATIENCE_S:g} s: {names}")
    return len(ended - {pod["metadata"]["uid"] for pod in left})


async def _end(connection: Connection, pods: list[Object]) -> None:
    """Suspend the jobs of the pods, and delete the pods without a job."""
    owners = await _owners(connection)
    above = [(pod, _job_of(pod, owners)) for pod in pods]
    jobs = {(job[0].kind, pod["metadata"]["namespace"], job[1]): job[0] for pod, job in above if job}
    await asyncio.gather(
        *(_requeue(connection, form, namespace, name) for (_, namespace, name), form in jobs.items()),
        *(_delete(connection, pod) for pod, job in above if not job),
    )


async def _owners(connection: Connection) -> Ancestors:
    """Return an index from pods to their owners: Jobs, and training jobs of the frameworks whose kinds the API server
    serves."""
    found: dict[Kind, dict[str, Object]] = {}
    for kind in (JOBS, *FRAMEWORK_KINDS):
        try:
            listed = (await connection.list(kind))["items"]
        except ApiRefusal as error:
            if error.code != 404:
                raise
            continue
        found[kind] = {f"{one['metadata']['namespace']}/{one['metadata']['name']}": one for one in listed}
    return Ancestors(lambda: tuple(found), lambda kind: found[kind])


def _job_of(pod: Object, owners: Ancestors) -> tuple[JobAdapter, str] | None:
    """Return the object that must be suspended to end the pod: the training job that Phalanx started, or the pod's Job.
    The result has the adapter of the object and its name. Return None if the pod has neither."""
    meta = pod["metadata"]
    above = owners.of(meta)
    if above is not None and ADMITTED in (above.obj["metadata"].get("annotations") or {}):
        return JobAdapter(above.kind, above.role or above.kind.name), above.obj["metadata"]["name"]
    owner = owners.owner(meta, AdmissionDefaults()) if above is None else None
    return (BATCH_JOB, owner.name) if owner is not None else None


async def _requeue(connection: Connection, form: JobAdapter, namespace: str, name: str) -> None:
    spec, words = form.suspension(), {ADMITTED: None}
    try:
        await connection.patch(form.kind, name, {"spec": spec, "metadata": {"annotations": words}}, namespace)
    except ApiRefusal as error:
        if error.code != 404:
            raise


async def _delete(connection: Connection, pod: dict[str, Any]) -> None:
    meta = pod["metadata"]
    try:
        await connection.delete(PODS, meta["name"], meta["namespace"], {"preconditions": {"uid": meta["uid"]}})
    except ApiRefusal as error:
        if error.code not in {404, 409}:
            raise
