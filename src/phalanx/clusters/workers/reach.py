"""Connect to the cluster that runs a job of the manager, with the caller's rights.

This module is separate from `source`, because the scheduler imports `source` and has no right to get a single
MultiKueueCluster.

A user can read the logs of a job in another cluster if the user may read the kubeconfig of that cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection
from phalanx.clusters.copies.content import sent_to
from phalanx.clusters.workers.source import SourceError, credentials, source_of
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS
from phalanx.errors import PhalanxError


def cluster_of(objects: Iterable[Mapping[str, object]]) -> str:
    """Return the name of the cluster that has the copies of these jobs; "" if the pods of the jobs are on the
    manager."""
    found = (sent_to(obj) for obj in objects)
    return next((clusters[-1] for clusters in found if clusters), "")


@asynccontextmanager
async def reached(api: Connection, objects: Iterable[Mapping[str, object]]) -> AsyncIterator[Connection]:
    """Yield a connection to the cluster in which the pods of these jobs are: `api` itself, or a connection to a worker.
    Raises PhalanxError if the worker cannot be reached."""
    name = cluster_of(objects)
    if not name:
        yield api
        return
    say = "Run the command in that cluster: name its kubeconfig with `--kubeconfig`."
    try:
        source = source_of(await api.get(MULTI_CLUSTERS, name))
        if isinstance(source, SourceError):
            raise source
        found = await credentials(api, source)
    except (SourceError, ApiRefusal) as error:
        raise PhalanxError(f"the job is in cluster {name}, whose kubeconfig you cannot use: {error}. {say}") from error
    async with await Connection.of(*found) as connection:
        try:
            await connection.request("GET", "/version")
        except (ApiUnknown, ApiRefusal) as error:
            raise PhalanxError(f"the job is in cluster {name}, which does not answer: {error}") from error
        yield connection
