"""Write the status of Queue objects, for `kubectl get queues`.

The leader writes the status to the `status` subresource a few seconds after a change, and at most every `pause_s`
seconds for each queue. An unchanged status is not written. So a thousand jobs that are submitted to a queue together
cause one write. If a write is lost or refused, the next write corrects the status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.moment import write_moment
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.model.pod import CPU, PODS, Amount, format_amount
from phalanx.model.queue import QueueState
from phalanx.model.status import QueueStatus, ResourceUsage

log = logging.getLogger(__name__)

_REASONS = {QueueState.HELD: "Held", QueueState.DRAINING: "Draining", QueueState.CLOSED: "Closed"}
_LEISURE = 50.0  # computing the statuses takes at most a fiftieth of this process's time
_MOST_FAULTS = 3  # failed writes after which a round ends, because the API server may be down
_MUCH = 1e6  # written for an infinite share, which JSON cannot express


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSource:
    """Functions that return the data from which statuses of queues are computed. `standings`: returns the usage and the
    jobs of the queues. `wrong`: the errors in the definitions, by queue. `objects`: the Queue objects by name.
    `may_write`: False after the leader's deadline for writes."""

    standings: Callable[[], Iterable[QueueStatus]]
    wrong: Callable[[], Mapping[str, str]]
    objects: Callable[[], Mapping[str, Object]]
    may_write: Callable[[], bool] = lambda: True


async def keep_queue_statuses(
    api: Connection, sight: StatusSource, now_s: Callable[[], float], pause_s: float = 3.0
) -> None:
    """Write the statuses of queues until cancelled. `now_s`: returns seconds since the epoch."""
    written: dict[str, Object] = {}
    failed: set[str] = set()
    while True:
        standings, looked_s = _look(sight)
        standings.sort(key=lambda one: one.queue in failed)
        failed = await write_statuses(api, sight, standings, now_s(), written)
        await asyncio.sleep(max(pause_s, _LEISURE * looked_s))


def _look(sight: StatusSource) -> tuple[list[QueueStatus], float]:
    """Return the status of all queues, and the number of seconds that the computation took."""
    began_s = time.perf_counter()
    found = list(sight.standings())
    return found, time.perf_counter() - began_s


async def write_statuses(
    api: Connection, sight: StatusSource, standings: Iterable[QueueStatus], now_s: float, written: dict[str, Object]
) -> set[str]:
    """Write the status of all queues once. `written`: a map from a queue to its last written status; this function
    updates the map. Return the queues whose write failed. The next round retries these queues after all other queues.
    The round ends early if `_MOST_FAULTS` writes fail."""
    queues, wrong = sight.objects(), sight.wrong()
    failed: set[str] = set()
    for standing in standings:
        name = standing.queue
        obj = queues.get(name)
        if obj is None or not sight.may_write():
            continue
        old = obj.get("status") or {}
        status = queue_status(standing, wrong.get(name, ""), obj, now_s)
        if status == old or status == written.get(name):
            continue
        try:
            body = {"metadata": {"uid": obj["metadata"]["uid"]}, "status": {**dict.fromkeys(old), **status}}
            await api.patch(QUEUES, name, body, subresource="status", fieldManager=FIELD_MANAGER)
            written[name] = status
        except ApiRefusal as error:
            log.info("the status of queue %s was not written: %s", name, error)
            written[name] = status  # the API server would refuse it again
        except ApiError as error:
            log.info("the status of queue %s was not written: %s", name, error)
            failed.add(name)
            if len(failed) == _MOST_FAULTS:
                break
    for name in written.keys() - queues.keys():
        del written[name]
    return failed


def queue_status(standing: QueueStatus, wrong: str, obj: Object, now_s: float) -> Object:
    """Return the status of a Queue object, in the form of the schema (`queue_schema.STATUS`)."""
    status: dict[str, Any] = {
        "state": str(standing.state),
        "observedGeneration": obj["metadata"].get("generation", 1),
        "pending": standing.pending,
        "running": standing.running,
        "share": round(standing.share, 4) if isfinite(standing.share) else _MUCH,
        "used": used(standing),
        "usage": [_amounts(one) for one in standing.usage],
        "pendingJobs": [
            {
                "job": place.job,
                "position": place.position,
                **({"reason": place.code} if place.code else {}),
                **({"expectedStart": write_moment(place.start_s)} if place.start_s is not None else {}),
            }
            for place in standing.first
        ],
        "conditions": [_active(standing, wrong, obj, now_s)],
    }
    if standing.state is not QueueState.OPEN:
        status["stateSince"] = write_moment(standing.state_since_s)
    return status


def used(standing: QueueStatus) -> str:
    """Return a text with the used amount of each resource on all nodes, and with the guaranteed amount if there is one:
    `4/8 cpu, 2/2 nvidia.com/gpu`."""
    found = []
    named = {one.resource for one in standing.usage if one.guaranteed or one.limit is not None}
    for one in standing.usage:
        if one.flavor or (one.resource == PODS and PODS not in named):
            continue
        own = f"/{format_amount(one.resource, one.guaranteed)}" if one.guaranteed is not None else ""
        found.append(f"{format_amount(one.resource, one.used)}{own} {one.resource}")
    return ", ".join(found) or "nothing"


def _amounts(one: ResourceUsage) -> Object:
    amounts = {"used": one.used, "guaranteed": one.guaranteed, "limit": one.limit, "borrowed": one.borrowed or None}
    said = {name: exact(one.resource, value) for name, value in amounts.items() if value is not None}
    return {"flavor": one.flavor, "resource": one.resource, **said}


def exact(resource: str, value: Amount) -> str:
    """Return `value` (millicores for cpu, otherwise units) as a Kubernetes quantity, without rounding."""
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{value * 1000}m"
    if resource == CPU:
        return f"{value}m" if value % 1000 else str(value // 1000)
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if value and value % 1024**power == 0:
                return f"{value // 1024**power}{suffix}"
    return str(value)


def _active(standing: QueueStatus, wrong: str, obj: Object, now_s: float) -> Object:
    """Return the condition Active. The condition keeps its lastTransitionTime as long as its status stays the same."""
    reason, message = _verdict(standing, wrong)
    truth = "True" if reason in {"Ready", "Draining"} else "False"
    old: Object = next(
        (one for one in (obj.get("status") or {}).get("conditions") or () if one["type"] == "Active"), {}
    )
    since = old["lastTransitionTime"] if old.get("status") == truth else write_moment(now_s)
    return {
        "type": "Active",
        "status": truth,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": obj["metadata"].get("generation", 1),
    }


def _verdict(standing: QueueStatus, wrong: str) -> tuple[str, str]:
    if wrong or standing.fault:
        return "Misconfigured", wrong or standing.fault
    if standing.state is not QueueState.OPEN:
        return _REASONS[standing.state], _STATES[standing.state]
    if standing.held_by:
        return "Held", f"the state of the queue {standing.held_by} above it prevents its jobs from starting"
    return "Ready", "its jobs start when there is capacity for them"


_STATES = {
    QueueState.HELD: "it accepts jobs but starts none; running jobs continue",
    QueueState.DRAINING: "it starts jobs that were submitted earlier, but accepts no new jobs",
    QueueState.CLOSED: "it neither accepts nor starts jobs; running jobs continue",
}
