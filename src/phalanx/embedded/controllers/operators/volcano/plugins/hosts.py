"""The names under which the pods of a job reach each other: `<hostname>.<subdomain>`, by task.

A template that names a hostname has that one for all its pods, so the task has one host. Source:
pkg/controllers/job/helpers and plugins/distributed-framework of Volcano v1.15.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.controllers.operators.volcano.tasks import JobSpec, Task


def pod_name(job: str, task: str, index: int) -> str:
    """Return the name of a pod: `<job>-<task>-<index>`."""
    return f"{job}-{task}-{index}"


def host(job: JobSpec, task: Task, index: int) -> str:
    """Return the name under which others reach that pod."""
    spec: Mapping[str, Any] = task.template.get("spec") or {}
    return f"{spec.get('hostname') or pod_name(job.name, task.name, index)}.{spec.get('subdomain') or job.name}"


def hosts(job: JobSpec, task: Task) -> list[str]:
    """Return the names of all pods of the task, by index."""
    if (task.template.get("spec") or {}).get("hostname"):
        return [host(job, task, 0)] if task.replicas else []
    return [host(job, task, index) for index in range(task.replicas)]
