"""The built-in kinds of the API groups `apps` and `batch`."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin_kinds.form import REPLICAS, builtin_kind, scale, status_of
from phalanx.embedded.apiserver.registry.kinds.batch.job import CronJobStrategy, JobStrategy
from phalanx.embedded.apiserver.registry.kinds.workloads.apps import WorkloadStrategy


def _workload(kind: str, short_name: str, *, scales: bool = True) -> Resource:
    """Return a kind of apps/v1. `scales`: True if it has the subresource `/scale`."""
    parts = (scale(), status_of(kind, "apps")) if scales else (status_of(kind, "apps"),)
    return builtin_kind(
        "apps",
        "v1",
        "apps",
        kind,
        f"{kind.lower()}s",
        short_names=(short_name,),
        categories=("all",),
        subresources=parts,
        strategy=WorkloadStrategy(kind.lower(), replicated=scales),
        scale=REPLICAS if scales else None,
    )


JOBS = builtin_kind(
    "batch",
    "v1",
    "batch",
    "Job",
    "jobs",
    strategy=JobStrategy(),
    categories=("all",),
    subresources=(status_of("Job", "batch"),),
)

WORKLOADS: tuple[Resource, ...] = (
    _workload("DaemonSet", "ds", scales=False),
    _workload("Deployment", "deploy"),
    _workload("ReplicaSet", "rs"),
    _workload("StatefulSet", "sts"),
    builtin_kind(
        "batch",
        "v1",
        "batch",
        "CronJob",
        "cronjobs",
        strategy=CronJobStrategy(),
        short_names=("cj",),
        categories=("all",),
        subresources=(status_of("CronJob", "batch"),),
    ),
    JOBS,
)
