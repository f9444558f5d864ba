"""Volcano's kinds on a cluster without Volcano: PodGroup and Queue, defined by us from its documented API.

They are made where they are absent and never changed: those that Volcano's own installation brought are as good, and
its to keep. With this dialect Phalanx answers to the scheduler name `volcano`, so Volcano's own scheduler must not run
beside it: both would bind the same pods.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import CRDS, Kind
from phalanx.kube.install.definitions import DIGEST, create, definition, find, served
from phalanx.kube.read.pod_group import POD_GROUPS

log = logging.getLogger(__name__)

QUEUES = Kind(group=POD_GROUPS.group, version=POD_GROUPS.version, plural="queues", name="Queue", namespaced=False)

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "format": "int32"}
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_AMOUNTS = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
}


def _object(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


_CONDITIONS = {
    "type": "array",
    "items": _object(
        type=_TEXT,
        status=_TEXT,
        transitionID=_TEXT,
        lastTransitionTime={"type": "string", "format": "date-time"},
        reason=_TEXT,
        message=_TEXT,
    ),
}
_POD_GROUP = _object(
    spec=_object(
        minMember=_COUNT,
        minTaskMember={"type": "object", "additionalProperties": _COUNT},
        queue=_TEXT,
        priorityClassName=_TEXT,
        minResources=_AMOUNTS,
        networkTopology=_OPEN,
        subGroupPolicy={"type": "array", "items": _OPEN},
    ),
    status=_object(phase=_TEXT, conditions=_CONDITIONS, running=_COUNT, succeeded=_COUNT, failed=_COUNT),
)
_QUEUE = _object(
    spec=_object(
        weight={**_COUNT, "minimum": 0},
        capability=_AMOUNTS,
        reclaimable={"type": "boolean"},
        guarantee=_object(resource=_AMOUNTS),
        deserved=_AMOUNTS,
        parent=_TEXT,
        priority=_COUNT,
        dequeueStrategy={"type": "string", "enum": ["traverse", "fifo"]},
        affinity=_OPEN,
        type=_TEXT,
        extendClusters={"type": "array", "items": _OPEN},
    ),
    status={**_object(state=_TEXT), "x-kubernetes-preserve-unknown-fields": True},
)


def _column(name: str, path: str, kind: str = "string") -> Object:
    return {"name": name, "type": kind, "jsonPath": path}


_AGE = _column("Age", ".metadata.creationTimestamp", "date")
DEFINITIONS: Mapping[Kind, Object] = {
    POD_GROUPS: definition(
        POD_GROUPS,
        "pg",
        _POD_GROUP,
        [
            _column("Status", ".status.phase"),
            _column("minMember", ".spec.minMember", "integer"),
            _column("Running", ".status.running", "integer"),
            _column("Queue", ".spec.queue"),
            _column("Why", '.status.conditions[?(@.type=="Unschedulable")].message'),
            _AGE,
        ],
        status=True,
    ),
    QUEUES: definition(
        QUEUES,
        "vq",
        _QUEUE,
        [_column("Parent", ".spec.parent"), _column("Weight", ".spec.weight", "integer"), _AGE],
        status=True,
    ),
}


async def install(api: Connection) -> None:
    """Returns when both are served. Who may not write definitions goes on with those that are there."""
    for kind, body in DEFINITIONS.items():
        name = body["metadata"]["name"]
        try:
            there = await find(api, CRDS, name)
            if there is None:
                await create(api, CRDS, body)
            elif DIGEST not in (there["metadata"].get("annotations") or {}):
                log.warning("the definition %s is not ours: Volcano's own scheduler must not run beside us", name)
        except ApiRefusal as error:
            if error.code != 403:
                raise
            log.warning("the definition %s stays as it is: %s", name, error)
        await served(api, kind)
