"""The host names of a job's pods, by task: `<hostname>.<subdomain>`.

The hostname in a template applies to all its pods, so the task then has one host name. Source:
pkg/controllers/job/helpers and plugins/distributed-framework of Volcano v1.15.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.embedded.controllers.operators.volcano.job_spec import JobSpec, VolcanoTask


def pod_name(job: str, task: str, index: int) -> str:
    """Return the name of a pod: `<job>-<task>-<index>`."""
    return f"{job}-{task}-{index}"


def host(job: JobSpec, task: VolcanoTask, index: int) -> str:
    """Return the name under which others reach that pod."""
    spec: Mapping[str, Any] = task.template.get("spec") or {}
    return f"{spec.get('hostname') or pod_name(job.name, task.name, index)}.{spec.get('subdomain') or job.name}"


def hosts(job: JobSpec, task: VolcanoTask) -> list[str]:
    """Return the names of all pods of the task, by index."""
    if (task.template.get("spec") or {}).get("hostname"):
        return [host(job, task, 0)] if task.replicas else []
    return [host(job, task, index) for index in range(task.replicas)]
