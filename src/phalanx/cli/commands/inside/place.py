"""Choose the pod of a job and the container in which a command runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from phalanx.cli.cluster.jobs.finding import Finder, FoundJob, pods_of
from phalanx.cli.cluster.target import Target, find_ledger_of
from phalanx.cli.terminal.output import note
from phalanx.client.connection import Connection, Object
from phalanx.clusters.workers.reach import reached
from phalanx.errors import PhalanxError

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@asynccontextmanager
async def running_pod(
    connection: Connection, job: str, namespace: str, target: Target | None
) -> AsyncIterator[tuple[Connection, Object]]:
    """Yield a connection to the cluster that runs the job, and the job's first running pod. If several pods run, print
    which one was chosen. Raises PhalanxError if no pod runs."""
    found = await Finder(connection, namespace, find_ledger_of(target, os.environ)).one(job)
    async with reached(connection, [member.obj for member in found.members]) as there:
        if there is not connection:
            found = await Finder(there, namespace).one(str(found))
        yield there, await _first_running(there, found)


async def _first_running(connection: Connection, found: FoundJob) -> Object:
    pods = await pods_of(connection, found)
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    if not running:
        raise PhalanxError(f"no pod of {found} runs. `phalanx explain {found.id}` shows why.")
    if len(running) > 1:
        name = running[0]["metadata"]["name"]
        note(f"phalanx: pod {name}, the first of {len(running)} running pods; JOB/INDEX chooses another")
    return running[0]


def container_of(pod: Object, wanted: str) -> str:
    """Return the name of the container `wanted`. If it is empty, choose a container as kubectl does. Raises
    PhalanxError for an unknown container."""
    names = [str(one["name"]) for one in pod["spec"]["containers"]]
    if not wanted:
        said = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
        return said if said in names else names[0]
    if wanted not in names:
        raise PhalanxError(
            f"pod {pod['metadata']['name']} has no container {wanted!r}. Its containers are: {', '.join(names)}."
        )
    return wanted
