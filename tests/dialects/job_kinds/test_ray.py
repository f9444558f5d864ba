"""`dialects/job_kinds/ray.py`: rayCluster, RayJob and RayService (`ray.io/v1`)."""

from __future__ import annotations

from phalanx.dialects.job_kinds.form import LATER, Framework
from phalanx.dialects.job_kinds.ray import RAY_JOB
from tests.dialects.job_kinds.test_forms import PARTS, RAY_SPEC, Object, obj

COUNTS = {
    "JobSet": {"driver": 1, "workers": 6},
    "TrainJob": {"driver": 1, "workers": 6},
    "RayCluster": {"head": 1, "small": 1, "big": 8},
    "RayJob": {"head": 1, "small": 1, "big": 8, "submitter": 1},
    "RayService": {"head": 1, "small": 1, "big": 8},
    "MPIJob": {"Launcher": 1, "Worker": 3},
    "SparkApplication": {"driver": 1, "executor": 2},
}


LATE = {"RayJob": {"submitter"}, "MPIJob": {"Launcher"}, "SparkApplication": {"executor"}}


@PARTS
def test_its_roles_are_kueues_pod_sets(form: Framework, job: Object, made: Object | None) -> None:
    shown = {role: form.view(job, role, made) for role in form.roles(job, made)}
    assert {role: one["spec"]["parallelism"] for role, one in shown.items()} == COUNTS[form.kind.name]
    assert list(shown) == list(COUNTS[form.kind.name]), "in Kueue's order"
    assert all(one["spec"]["suspend"] for one in shown.values())
    late = {role for role, one in shown.items() if LATER in one["metadata"]["annotations"]}
    assert late == LATE.get(form.kind.name, set())


def test_a_ray_job_on_a_cluster_that_is_there_is_left_alone() -> None:
    assert RAY_JOB.roles(obj(clusterSelector={"ray.io/cluster": "c"}, rayClusterSpec=RAY_SPEC)) == []


def test_sidecars_count_with_the_head() -> None:
    job = obj(submissionMode="SidecarMode", rayClusterSpec={**RAY_SPEC, "enableInTreeAutoscaling": True})
    assert RAY_JOB.roles(job) == ["head", "small", "big"]
    names = [one["name"] for one in RAY_JOB.view(job, "head")["spec"]["template"]["spec"]["containers"]]
    assert names == ["head", "autoscaler", "ray-job-submitter"]
