"""Read the object of a manifest as if the object existed, for the changes of a what-if question.

A Job gets the fields that `phalanx submit` adds, and the defaults of the API server. An object that replaces an
existing one keeps its identity, its status and the annotations that the scheduler has written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from phalanx.cli.files.manifest import Document, queued
from phalanx.client.connection import Object
from phalanx.client.informer import key_of
from phalanx.client.kind import JOBS, LIMIT_RANGES, NODES, PRIORITY_CLASSES, RESOURCE_QUOTAS, RUNTIME_CLASSES, Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.dialects.schema.policy import read_flavor, read_reservation
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import FLAVORS, QUEUES, RESERVATIONS
from phalanx.kube.read.labels import ADMITTED, PARALLELISM, PREEMPTED, REASON, REASON_NUMBERS, TEMPLATE, USER
from phalanx.kube.read.node import read_node
from phalanx.kube.read.queue import read_queue
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.batch_job import read_job
from phalanx.state.cluster import Cluster

KINDS: Final = (
    *(JOBS, QUEUES, FLAVORS, RESERVATIONS, NODES),
    *(PRIORITY_CLASSES, LIMIT_RANGES, RUNTIME_CLASSES, RESOURCE_QUOTAS),
)
# The annotations that the scheduler writes on Jobs.
WRITTEN = (ADMITTED, PREEMPTED, REASON, REASON_NUMBERS, PARALLELISM, TEMPLATE)
POD_ROOM = "110"  # the kubelet's default for the number of pods on a node
# kind -> the function that reads an object; it raises an error for an invalid manifest
READERS: Mapping[Kind, Callable[[Object], Any]] = {
    JOBS: lambda obj: read_job(obj, AdmissionDefaults()),
    NODES: read_node,
    QUEUES: read_queue,
    FLAVORS: lambda obj: read_flavor(obj["metadata"]["name"], obj.get("spec") or {}),
    RESERVATIONS: lambda obj: read_reservation(obj["metadata"]["name"], obj.get("spec") or {}),
}


def kind_of(document: Document) -> Kind:
    said = (document.obj["apiVersion"], document.obj["kind"])
    for kind in KINDS:
        if said == (kind.api_version, kind.name):
            return kind
    known = ", ".join(f"{kind.name} ({kind.api_version})" for kind in KINDS)
    raise PhalanxError(
        f"{document.place(('kind',))}: a {said[1]} ({said[0]}) cannot be simulated. Nothing was simulated. "
        f"Supported kinds: {known}."
    )


def complete_object(document: Document, kind: Kind, book: Cluster, namespace: str, number: int) -> Object:
    """Return the document's object with the fields that the API server and `phalanx submit` would add. `number`: a
    number that makes the uid unique."""
    obj = queued(document, None)
    given = obj["metadata"]
    if not given.get("name"):
        raise PhalanxError(f"{document.place(('metadata',))}: metadata.name is missing. Nothing was simulated.")
    meta = {key: given[key] for key in ("name", "labels") if given.get(key)}
    if kind.namespaced:
        meta["namespace"] = given.get("namespace") or namespace
    said = {key: text for key, text in (given.get("annotations") or {}).items() if key not in WRITTEN}
    created_s = book.now_s
    if kind is JOBS and (record := book.jobs.get(key_of({"metadata": meta}))) is not None:
        created_s = record.job.submitted_s
        said = {USER: record.job.user, **said} if record.job.user else said
    meta |= {"uid": f"supposed-{number}", "resourceVersion": "1", "creationTimestamp": write_moment(created_s)}
    status = _node_status(document) if kind is NODES else {}
    kept = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    return {**kept, "metadata": {**meta, "annotations": said}, "status": status}


def _node_status(document: Document) -> Object:
    """Return the status of a new node. If the manifest has no conditions, the node is ready. If it has no
    `allocatable`, the whole capacity is allocatable."""
    status = document.obj.get("status") or {}
    said = "allocatable" if isinstance(status, dict) and status.get("allocatable") else "capacity"
    room = status.get(said) if isinstance(status, dict) else None
    if not isinstance(room, dict):
        raise PhalanxError(
            f"{document.place(('status',))}: the manifest of the node has no resources. Nothing was simulated. Write "
            "for example "
            "status: {allocatable: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}."
        )
    try:
        Fields(status, ("status",)).amounts(said)
    except Misread as error:
        raise PhalanxError(f"{document.place(error.path)}: {error}. Nothing was simulated.") from None
    ready = [{"type": "Ready", "status": "True"}]
    return {"allocatable": {"pods": POD_ROOM, **room}, "conditions": status.get("conditions") or ready}


def over_existing(old: Object, new: Object, kind: Kind) -> Object:
    """Return the new object with the identity, the status and the scheduler's annotations of the existing object. A
    node gets the status of the new object instead."""
    before, after = old["metadata"], new["metadata"]
    written = {key: text for key, text in (before.get("annotations") or {}).items() if key in (*WRITTEN, USER)}
    annotations = {**after["annotations"], **written}
    meta = {**before, "labels": after.get("labels") or {}, "annotations": annotations}
    spec = {**(new.get("spec") or {})}
    if kind is JOBS:
        spec["suspend"] = old["spec"].get("suspend")
    status = new["status"] if kind is NODES else old.get("status") or {}
    return {**new, "metadata": meta, "spec": spec, "status": status}


def require_readable(document: Document, kind: Kind, obj: Object) -> None:
    try:
        READERS.get(kind, dict)(obj)
    except Misread as error:
        raise PhalanxError(f"{document.place(error.path)}: {error}. Nothing was simulated.") from None
    except (LookupError, TypeError, AttributeError, ValueError, PhalanxError) as error:
        raise PhalanxError(
            f"{document.place()}: this cannot be read as a {kind.name} ({type(error).__name__}: {error}). Nothing was "
            "tried. An API server shows the error: kubectl create --dry-run=server -f FILE."
        ) from None
