"""Read the Events of pods that do not start, and add the cause to their status."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from phalanx.cli.cluster.jobs.attending import is_silent, with_events
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import EVENTS
from phalanx.kube.read.wire import epoch_s

_SILENT_S = 10.0  # the Events of a scheduled pod are read if it has not started within this time
_SILENT_PODS = 20  # the maximum number of pods whose Events are read


async def with_causes(connection: Connection, pods: Mapping[str, Object], now_s: float) -> Mapping[str, Object]:
    """Return the pods. If a pod has not started for `_SILENT_S`, the cause from its Events is added to its status."""
    late = [key for key, pod in pods.items() if is_silent(pod) and now_s - _begun_s(pod) > _SILENT_S][:_SILENT_PODS]
    events = await asyncio.gather(*(_events_of(connection, pods[key]) for key in late))
    return {**pods, **{key: with_events(pods[key], found) for key, found in zip(late, events, strict=True)}}


def _begun_s(pod: Object) -> float:
    return epoch_s((pod.get("status") or {}).get("startTime") or pod["metadata"].get("creationTimestamp"))


async def _events_of(connection: Connection, pod: Object) -> list[Object]:
    """Return the Events about a pod; empty if the user may not list them."""
    meta = pod["metadata"]
    try:
        found = await connection.list(EVENTS, meta["namespace"], fieldSelector=f"involvedObject.uid={meta['uid']}")
    except ApiRefusal:
        return []
    return list(found["items"])
