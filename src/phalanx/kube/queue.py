"""Queues as objects: the CustomResourceDefinition `queues.phalanx.dev`, and reading one.

Queues are cluster-scoped, for they divide the cluster's room and not a namespace's. For now the tree is flat and a
queue says only how its jobs start.
"""

from __future__ import annotations

import asyncio

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import CRDS, Kind
from phalanx.model.queue import Queue

QUEUES = Kind(group="phalanx.dev", plural="queues", name="Queue", namespaced=False)
DEFAULT_QUEUE = "default"

_SCHEMA = {
    "type": "object",
    "description": "A queue: who may start how many of their jobs, in which order.",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "gang": {
                    "type": "boolean",
                    "default": True,
                    "description": "Start jobs whole. With false their pods are placed one by one, as kube-scheduler "
                    "does: jobs may then deadlock each other half-started.",
                },
                "parent": {"type": "string", "description": "The queue above; empty for one at the top."},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}

QUEUE_CRD: Object = {
    "apiVersion": CRDS.api_version,
    "kind": CRDS.name,
    "metadata": {"name": "queues.phalanx.dev"},
    "spec": {
        "group": QUEUES.group,
        "scope": "Cluster",
        "names": {"plural": "queues", "singular": "queue", "kind": "Queue", "shortNames": ["q"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Gang", "type": "boolean", "jsonPath": ".spec.gang"},
                    {"name": "Parent", "type": "string", "jsonPath": ".spec.parent"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            }
        ],
    },
}


def read_queue(obj: Object) -> Queue:
    spec = obj.get("spec") or {}
    return Queue(name=obj["metadata"]["name"], parent=spec.get("parent") or "", gang=spec.get("gang", True))


async def install(api: Connection) -> None:
    """Create the definition and the queue `default`, where they are missing; returns when queues are served."""
    await _create(api, CRDS, QUEUE_CRD)
    default = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.name,
        "metadata": {"name": DEFAULT_QUEUE},
        "spec": {"gang": True},
    }
    for pause_s in (0.05,) * 20 + (0.5,) * 20:
        try:
            await _create(api, QUEUES, default)
            return
        except ApiRefusal as error:
            if error.code != 404:  # not served yet: a definition is established a moment after it is created
                raise
        await asyncio.sleep(pause_s)
    await _create(api, QUEUES, default)


async def _create(api: Connection, kind: Kind, body: Object) -> None:
    try:
        await api.create(kind, body)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise
