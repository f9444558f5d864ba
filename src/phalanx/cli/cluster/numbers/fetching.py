"""Fetch numbers and rows that the scheduler computes, so that commands need not import the scheduler's code. A function
returns None if the cluster does not serve the data to this user; then the command computes the data itself."""

from __future__ import annotations

from math import inf
from typing import Final

from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.moment import read_moment
from phalanx.client.quantity import amount
from phalanx.model.queue import QueueState
from phalanx.model.reason import StartForecast
from phalanx.model.status import QueueStatus, ResourceUsage

GROUP: Final = "visibility.phalanx.dev"
VERSION: Final = "v1"
ALL: Final = "-"
_API: Final = f"{GROUP}/{VERSION}"


async def fetch_summaries(connection: Connection) -> list[Object] | None:
    """Return the summary of each queue, parents first; None if the cluster does not serve them to this user."""
    return await _fetched(connection, f"/apis/{_API}/queues/{ALL}/summary")


async def fetch_reasons(connection: Connection, namespace: str) -> dict[str, Object]:
    """Return a map from NAMESPACE/NAME of each live job of the namespace to the numbers about this job. The map is
    empty if the user may not read the numbers, or if the cluster does not serve them."""
    found = await _fetched(connection, f"/apis/{_API}/namespaces/{namespace}/jobs/{ALL}/reason")
    return {f"{one['metadata']['namespace']}/{one['metadata']['name']}": one for one in found or ()}


async def fetch_reason(connection: Connection, namespace: str, name: str) -> Object | None:
    """Return the numbers about one live job; None if the cluster does not serve them to this user."""
    return await _answer(connection, f"/apis/{_API}/namespaces/{namespace}/jobs/{name}/reason")


async def fetch_rows(
    connection: Connection, namespace: str, *, finished: bool = False, recorded: bool = False
) -> Object | None:
    """Return the rows of the jobs of a namespace ("": of all namespaces) in the field `items`. The field `now_s` has
    the time, and `live` the number of live jobs. `finished`: include jobs that have ended. `recorded`: include all
    fields that `--json` prints."""
    query = {name: "true" for name, is_asked in (("finished", finished), ("recorded", recorded)) if is_asked}
    return await _answer(connection, f"/apis/{_API}/namespaces/{namespace or ALL}/jobs/{ALL}/row", query)


async def fetch_queue_table(connection: Connection) -> Object | None:
    """Return the table of `phalanx queues`: `columns`, `gives_way`, and `items` with `cells` and `record`."""
    return await _answer(connection, f"/apis/{_API}/queues/{ALL}/row")


async def fetch_page(connection: Connection, job: str) -> Object | None:
    """Return the page of `phalanx explain` for a live job, with the fields `text`, `record` and `unused`. `job`: the id
    of the job in the scheduler, NAMESPACE/NAME."""
    namespace, _, name = job.partition("/")
    return await _answer(connection, f"/apis/{_API}/namespaces/{namespace}/jobs/{name}/page")


def standing_of(summary: Object) -> QueueStatus:
    """Return the queue status that a summary of the server describes. Its list of jobs is empty."""
    return QueueStatus(
        queue=summary["metadata"]["name"],
        **{name: summary[name] for name in ("parent", "depth", "running", "pending", "fault")},
        share=inf if summary["share"] is None else summary["share"],
        usage=tuple(
            ResourceUsage(
                flavor=one["flavor"],
                resource=one["resource"],
                **{name: amount(one["resource"], one[name]) for name in ("used", "lendable")},
                **{name: amount(one["resource"], one[name]) for name in ("guaranteed", "limit") if name in one},
                owned="borrowed" in one and amount(one["resource"], one["borrowed"]) > 0,
            )
            for one in summary["usage"]
        ),
        state=QueueState(summary["state"]),
        state_since_s=0.0,
        held_by=summary["heldBy"],
        first=(),
    )


def forecast_of(numbers: Object) -> StartForecast | None:
    """Return the expected start in the numbers about a job; None if it is unknown."""
    if "expectedStart" not in numbers:
        return None
    start_s = read_moment(numbers["expectedStart"])
    return StartForecast(start_s=start_s, likely_s=(start_s, start_s), nearly_sure_s=(start_s, start_s), latest_s=inf)


async def _fetched(connection: Connection, path: str) -> list[Object] | None:
    found = await _answer(connection, path)
    return None if found is None else found["items"]


async def _answer(connection: Connection, path: str, query: dict[str, str] | None = None) -> Object | None:
    try:
        found: Object = await connection.request("GET", path, params=query)
    except ApiError:  # the path is not served, the user may not read it, or the scheduler does not respond
        return None
    return found
