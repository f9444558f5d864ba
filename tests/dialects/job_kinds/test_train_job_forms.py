"""`dialects/job_kinds/train_job.py`: trainJob (`trainer.kubeflow.org/v1alpha1`)."""

from __future__ import annotations

from phalanx.dialects.job_kinds.train_job import TRAIN_JOB
from tests.dialects.job_kinds.test_forms import obj


def test_a_train_job_keeps_what_others_patch_and_has_one_entry_of_ours() -> None:
    theirs = {"manager": "somebody", "trainingRuntimeSpec": {}}
    spec = TRAIN_JOB.edit({"runtimePatches": [theirs]}, "a", {"template": {"spec": {"nodeSelector": {"x": "1"}}}})
    spec = TRAIN_JOB.edit(spec, "b", {"template": {"spec": {"nodeSelector": {"x": "2"}}}})
    spec = TRAIN_JOB.edit(spec, "a", {"template": {"spec": {"nodeSelector": {"x": None, "y": "3"}}}})
    assert spec["runtimePatches"][0] == theirs
    (ours,) = spec["runtimePatches"][1:]
    jobs = ours["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    inner = {one["name"]: one["template"]["spec"]["template"]["spec"] for one in jobs}
    assert inner == {"a": {"nodeSelector": {"y": "3"}}, "b": {"nodeSelector": {"x": "2"}}}


def test_a_train_job_without_a_job_set_has_no_roles_yet() -> None:
    assert TRAIN_JOB.roles(obj(runtimeRef={"name": "torch"}), None) == []
