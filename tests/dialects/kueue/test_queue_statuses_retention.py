"""`objectRetentionPolicies` of Kueue's Configuration: what is deleted, and when."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import JOBS
from phalanx.client.moment import read_moment, write_moment
from phalanx.dialects.frame.dialect import Answer, Object
from phalanx.dialects.job_kinds.ray import RAY_JOB
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers.queue_statuses import retained
from phalanx.dialects.kueue.tree.configuration import KueueConfiguration, KueueConfigurationError, read_configuration

ENDED = "2026-01-01T00:00:00Z"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}


def workload(condition: str, reason: str, *, active: bool = True, **owner: str) -> Object:
    said = {"type": condition, "status": "True", "reason": reason, "lastTransitionTime": ENDED}
    meta = {"name": "w", "namespace": "default", "ownerReferences": [{**OWNER, **owner}]}
    return {"metadata": meta, "spec": {"active": active}, "status": {"conditions": [said]}}


def deletions(workload: Object, after_s: float, **retention: Any) -> list[Answer]:
    settings = read_configuration({"objectRetentionPolicies": {"workloads": retention}})
    now = write_moment(read_moment(ENDED) + after_s)
    return list(retained(settings, {kinds.WORKLOADS: {"default/w": workload}}, now))


def test_finished_workload_is_deleted_after_its_retention() -> None:
    finished = workload("Finished", "Succeeded")
    (early,) = deletions(finished, 59.0, afterFinished="1m")
    assert (early.gone, early.again_s) == (False, read_moment(ENDED) + 60.0)
    (late,) = deletions(finished, 60.0, afterFinished="1m")
    assert (late.kind, late.key, late.gone) == (kinds.WORKLOADS, "default/w", True)
    assert deletions(finished, 60.0, afterDeactivatedByKueue="1s") == []
    assert list(retained(KueueConfiguration(), {kinds.WORKLOADS: {"default/w": finished}}, ENDED)) == []


def test_job_is_deleted_only_if_a_rule_deactivated_its_workload() -> None:
    over = "DeactivatedDueToMaximumExecutionTimeExceeded"
    (found,) = deletions(workload("Evicted", over, active=False), 1.0, afterDeactivatedByKueue="0s")
    assert (found.kind, found.key, found.gone, found.uid) == (JOBS, "default/j", True, "u")
    ray = workload("Evicted", over, active=False, apiVersion="ray.io/v1", kind="RayJob")
    assert [one.kind for one in deletions(ray, 1.0, afterDeactivatedByKueue="0s")] == [RAY_JOB.kind]
    by_a_user = workload("Evicted", "Deactivated", active=False)
    activated_again = workload("Evicted", over)
    pod = workload("Evicted", over, active=False, apiVersion="v1", kind="Pod")
    for other in (by_a_user, activated_again, pod):
        assert deletions(other, 1.0, afterDeactivatedByKueue="0s") == []


def test_unreadable_retention_is_refused_with_its_path() -> None:
    with pytest.raises(KueueConfigurationError, match=r"objectRetentionPolicies\.workloads\.afterFinished.*soon"):
        deletions(workload("Finished", "Succeeded"), 0.0, afterFinished="soon")
