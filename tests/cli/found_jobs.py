"""Jobs as commands find them."""

from __future__ import annotations

from typing import Any

from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.client.kind import JOBS, Kind


def found_job(
    name: str = "train",
    *,
    kind: Kind = JOBS,
    status: Any = None,
    annotations: Any = None,
    labels: Any = None,
    **spec: Any,
) -> FoundJob:
    """A Job of one object, in the namespace `ns`."""
    meta = {"name": name, "namespace": "ns", "uid": name, "annotations": annotations or {}, "labels": labels or {}}
    obj = {"metadata": meta, "spec": {"template": {"spec": {}}, **spec}, "status": status or {}}
    return FoundJob(kind="job", namespace="ns", name=name, members=(Member(kind=kind, obj=obj),))


COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
