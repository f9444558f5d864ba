"""Reconstruct the object of a job as its user submitted it, without the fields that the API server, controllers and the
start of the job have added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from phalanx.cli.cluster.jobs.finding import Member
from phalanx.cli.files.rendezvous import rename
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, PODS
from phalanx.kube.read.labels import LIMITED, MOVED_FROM, MOVING, OURS, PARALLELISM, SUBMITTED, USER, WRITTEN
from phalanx.kube.read.workload.batch_job import original_template

_META = ("name", "namespace", "labels", "annotations")
# Labels and annotations that controllers and kubectl write.
_MADE = re.compile(r"(batch\.kubernetes\.io/|controller-uid$|job-name$|kubectl\.kubernetes\.io/last-applied)")
_WRITTEN = frozenset({*WRITTEN, USER, MOVING, MOVED_FROM, SUBMITTED})


def copy_of(member: Member, name: str) -> Object:
    """Return a copy of the object as its user submitted it, with the name `name`."""
    obj, meta = deepcopy(member.obj), member.obj["metadata"]
    obj.pop("status", None)
    obj |= {"apiVersion": member.kind.api_version, "kind": member.kind.name}
    obj["metadata"] = {key: meta[key] for key in _META if meta.get(key)}
    for field in ("labels", "annotations"):
        if field in obj["metadata"]:
            obj["metadata"][field] = _own(obj["metadata"][field])
    if member.kind is JOBS:
        obj["spec"] = _job_spec(meta, obj["spec"])
        rename(obj, name)
    else:
        obj["metadata"]["name"] = name
    if member.kind is PODS and obj["spec"].get("schedulerName") in OURS:
        obj["spec"].pop("nodeName", None)
    return obj


def _job_spec(meta: Object, spec: Object) -> Object:
    """Return the spec of a Job without the fields that its controller added, and with the values that the start of the
    Job replaced."""
    words: Mapping[str, str] = meta.get("annotations") or {}
    if not spec.get("manualSelector"):
        spec.pop("selector", None)
    template = {key: value for key, value in original_template(meta, spec["template"]).items() if value is not None}
    template["spec"] = {key: value for key, value in template["spec"].items() if value is not None}
    own = dict(template.get("metadata") or {})
    own["labels"] = _own(own.get("labels") or {})
    own.pop("creationTimestamp", None)
    found: dict[str, Any] = {**spec, "template": {**template, "metadata": own}, "suspend": True}
    _, of, asked = words.get(PARALLELISM, "").partition(" of ")
    if of and asked.isdigit():
        found["parallelism"] = int(asked)
    _, of, limit = words.get(LIMITED, "").partition(" of ")
    if of:
        found["activeDeadlineSeconds"] = int(limit) if limit.isdigit() else None
    return {key: value for key, value in found.items() if value is not None}


def _own(words: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in words.items() if key not in _WRITTEN and not _MADE.match(key)}
