"""Volcano Jobs and their pods, as tests write them."""

from __future__ import annotations

from typing import Any

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.volcano import kinds
from phalanx.embedded.controllers.operators.volcano.plugins import pod_name

NOW_S = 1_750_000_000.0
BORN = "2025-06-15T15:06:30Z"  # ten seconds before


def task(name: str, replicas: int, **fields: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def job(*tasks: Object, status: Object | None = None, **spec: Any) -> Object:
    meta = {"name": "j", "namespace": "n", "uid": "u", "creationTimestamp": BORN, "generation": 1}
    body = {
        "apiVersion": kinds.JOBS.api_version,
        "kind": "Job",
        "metadata": meta,
        "spec": {"tasks": list(tasks), **spec},
    }
    return body if status is None else {**body, "status": status}


def in_phase(phase: str, **fields: Any) -> Object:
    entry = {"status": phase, "lastTransitionTime": BORN}
    return {"state": {"phase": phase, "lastTransitionTime": BORN}, "conditions": [entry], **fields}


def pod(
    name: str, index: int, phase: str, *, version: int = 0, code: int = 0, restarts: int = 0, **meta: Any
) -> Object:
    notes = {kinds.TASK_SPEC: name, kinds.TASK_INDEX: str(index), kinds.JOB_VERSION: str(version)}
    container: dict[str, Any] = {"name": "c", "ready": phase == "Running", "restartCount": restarts, "state": {}}
    if phase in ("Succeeded", "Failed"):
        container["state"] = {"terminated": {"exitCode": code, "finishedAt": BORN}}
    named = {"name": pod_name("j", name, index), "uid": f"{name}-{index}-{version}", "creationTimestamp": BORN}
    return {
        "metadata": {**named, "namespace": "n", "annotations": notes, "labels": {}, **meta},
        "spec": {},
        "status": {"phase": phase, "containerStatuses": [container]},
    }
