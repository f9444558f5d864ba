"""Each framework's job as Jobs: its roles and counts are Kueue's pod sets, and what is written is read back."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.quantity import amount
from phalanx.dialects.frameworks.form import LATER, Framework, difference, nested, patched
from phalanx.dialects.frameworks.job_set import JOB_SET
from phalanx.dialects.frameworks.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.frameworks.replica_types import MPI_JOB
from phalanx.dialects.frameworks.spark import SPARK
from phalanx.dialects.frameworks.train_job import TRAIN_JOB
from phalanx.dialects.job_kinds import FRAMEWORKS
from phalanx.kube.read.workload.adapter import Change, JobAdapter, merge_changes

Object = dict[str, Any]


def pod(name: str = "c", cpu: str = "1", **spec: Any) -> Object:
    return {"spec": {"containers": [{"name": name, "resources": {"requests": {"cpu": cpu}}}], **spec}}


def obj(**spec: Any) -> Object:
    return {"metadata": {"name": "t", "namespace": "default", "uid": "u", "resourceVersion": "7"}, "spec": spec}


def replicated(name: str, replicas: int | None, parallelism: int, completions: int | None, **more: Any) -> Object:
    spec: Object = {"parallelism": parallelism, "template": pod()}
    spec |= {} if completions is None else {"completions": completions}
    return {"name": name, "template": {"spec": spec}, **({} if replicas is None else {"replicas": replicas}), **more}


JOBSET = obj(suspend=True, replicatedJobs=[replicated("driver", None, 1, 1), replicated("workers", 2, 4, 3)])
RAY_SPEC = {
    "headGroupSpec": {"template": pod("head")},
    "workerGroupSpecs": [
        {"groupName": "small", "template": pod("worker")},
        {"groupName": "big", "replicas": 2, "numOfHosts": 4, "template": pod("worker")},
        {"groupName": "none", "replicas": 0, "template": pod("worker")},
    ],
}
CLUSTER = obj(suspend=True, **RAY_SPEC)
RAY = obj(suspend=True, rayClusterSpec=RAY_SPEC)
MPI = obj(
    runPolicy={"suspend": True},
    launcherCreationPolicy="WaitForWorkersReady",
    mpiReplicaSpecs={"Worker": {"replicas": 3, "template": pod()}, "Launcher": {"template": pod()}},
)
SPARK_PI = obj(
    type="Scala",
    suspend=True,
    driver={"cores": 1, "memory": "512m", "nodeSelector": {"zone": "a"}},
    executor={"instances": 2, "coreRequest": "1500m", "memory": "8g"},
)
GATES = [{"name": "g"}]
WORDS = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
PARTS = pytest.mark.parametrize(
    ("form", "job", "made"),
    [
        (JOB_SET, JOBSET, None),
        (TRAIN_JOB, obj(suspend=True, runtimeRef={"name": "torch"}), JOBSET),
        (RAY_CLUSTER, CLUSTER, None),
        (RAY_JOB, RAY, None),
        (RAY_SERVICE, obj(rayClusterConfig={"suspend": True, **RAY_SPEC}, serveConfigV2="applications: []"), None),
        (MPI_JOB, MPI, None),
        (SPARK, SPARK_PI, None),
    ],
    ids=["JobSet", "TrainJob", "RayCluster", "RayJob", "RayService", "MPIJob", "SparkApplication"],
)
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


@PARTS
def test_what_is_written_to_all_roles_at_once_is_read_back(form: Framework, job: Object, made: Object | None) -> None:
    roles = [role for role in form.roles(job, made) if role != "submitter"]  # without a template it is its operator's
    changes = [
        Change(
            JobAdapter(form.kind, role, made),
            {
                "suspend": False,
                "template": {"metadata": WORDS, "spec": {"nodeSelector": {"of": role}, "schedulingGates": GATES}},
            },
            {"phalanx.dev/template": role, "phalanx.dev/admitted": "{}"},
        )
        for role in roles
    ]
    spec, words = merge_changes(job, changes)
    now = patched(job, {"spec": spec, "metadata": {"annotations": words}})
    made = carried(now, made)
    for role in roles:
        after = form.view(now, role, made)
        assert not after["spec"]["suspend"]
        assert after["spec"]["template"]["spec"]["nodeSelector"]["of"] == role
        assert after["spec"]["template"]["spec"]["schedulingGates"] == GATES
        meta = after["spec"]["template"]["metadata"]
        assert (meta["labels"]["team"], meta["annotations"]["note"]) == ("a", "b")
        assert after["metadata"]["annotations"]["phalanx.dev/template"] == role
        before = form.view(job, role, made)
        assert after["spec"]["parallelism"] == before["spec"]["parallelism"]
    assert patched(now, {"spec": nested(form.suspend, True)})["spec"] != now["spec"]


def carried(job: Object, made: Object | None) -> Object | None:
    """The JobSet with what runtimePatches say, as the operator of TrainJobs carries it over."""
    spec = (made or {}).get("spec") or {}
    for entry in job["spec"].get("runtimePatches") or ():
        for one in entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            spec = JOB_SET.edit(spec, one["name"], one["template"]["spec"])
    return made and {**made, "spec": spec}


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


def test_what_depends_on_others_starts_later() -> None:
    jobs = [replicated("a", 1, 1, 1), replicated("b", 1, 1, 1, dependsOn=[{"name": "a", "status": "Complete"}])]
    depends, in_order = obj(replicatedJobs=jobs), obj(replicatedJobs=[replicated(name, 1, 1, 1) for name in "ab"])
    in_order["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    for one in (depends, in_order):
        late = [LATER in JOB_SET.view(one, role)["metadata"]["annotations"] for role in "ab"]
        assert late == [False, True]


def test_sparks_memory_has_its_overhead() -> None:
    def memory(role: str, **spec: Any) -> int:
        template = SPARK.view({**SPARK_PI, "spec": {**SPARK_PI["spec"], **spec}}, role)["spec"]["template"]
        return amount("memory", template["spec"]["containers"][0]["resources"]["requests"]["memory"])

    mib = 1024 * 1024
    assert memory("driver") == (512 + 384) * mib, "at least 384 MiB"
    assert memory("executor") == 8 * 1024 * mib * 110 // 100 + 1
    assert memory("executor", type="Python") == 8 * 1024 * mib * 140 // 100 + 1
    assert memory("driver", driver={"memory": "1g", "memoryOverhead": "100m"}) == 1124 * mib
    with pytest.raises(ValueError, match="Java's form"):
        memory("driver", driver={"memory": "a lot"})


@pytest.mark.parametrize(
    ("form", "status", "end"),
    [
        (JOB_SET, {"conditions": [{"type": "Completed", "status": "True"}]}, ["Complete"]),
        (JOB_SET, {"conditions": [{"type": "Suspended", "status": "True"}]}, []),
        (MPI_JOB, {"conditions": [{"type": "Failed", "status": "True"}]}, ["Failed"]),
        (RAY_JOB, {"jobDeploymentStatus": "Complete"}, ["Complete"]),
        (RAY_JOB, {"jobDeploymentStatus": "Running"}, []),
        (SPARK, {"applicationState": {"state": "COMPLETED"}}, ["Complete"]),
        (SPARK, {"applicationState": {"state": "SUBMISSION_FAILED"}}, ["Failed"]),
    ],
    ids=str,
)
def test_how_it_ended(form: Framework, status: Object, end: list[str]) -> None:
    job = {JOB_SET: JOBSET, MPI_JOB: MPI, RAY_JOB: RAY, SPARK: SPARK_PI}[form]  # type: ignore[index]  # these can be keys
    (first, *_) = form.roles(job, None)
    shown = form.view({**job, "status": status}, first, None)["status"]
    assert [one["type"] for one in shown.get("conditions", ())] == end


def test_a_failed_submission_that_is_tried_again_has_not_ended() -> None:
    job = {**SPARK_PI, "spec": {**SPARK_PI["spec"], "restartPolicy": {"type": "OnFailure"}}}
    assert not SPARK.view({**job, "status": {"applicationState": {"state": "SUBMISSION_FAILED"}}}, "driver")["status"]


def test_a_ray_job_on_a_cluster_that_is_there_is_left_alone() -> None:
    assert RAY_JOB.roles(obj(clusterSelector={"ray.io/cluster": "c"}, rayClusterSpec=RAY_SPEC)) == []


def test_sidecars_count_with_the_head() -> None:
    job = obj(submissionMode="SidecarMode", rayClusterSpec={**RAY_SPEC, "enableInTreeAutoscaling": True})
    assert RAY_JOB.roles(job) == ["head", "small", "big"]
    names = [one["name"] for one in RAY_JOB.view(job, "head")["spec"]["template"]["spec"]["containers"]]
    assert names == ["head", "autoscaler", "ray-job-submitter"]


@pytest.mark.parametrize("kind", FRAMEWORKS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}], ids=str)
def test_an_object_without_a_spec_has_no_roles_that_raise(kind: Any, spec: Object) -> None:
    form = FRAMEWORKS[kind]
    assert len(form.roles({"metadata": {"name": "t"}, **spec}, None)) <= 2


def test_the_difference_of_two_specs_makes_the_one_of_the_other() -> None:
    old: Object = {"a": 1, "b": {"c": [1], "d": 2}, "e": {"f": 1}}
    new: Object = {"b": {"c": [1, 2], "g": {"h": 1}}, "e": {"f": 1}, "i": None}
    assert difference(old, new) == {"a": None, "b": {"c": [1, 2], "d": None, "g": {"h": 1}}, "i": None}
    assert difference(old, old) == {}
