"""Templates of the wrong shape: the server refuses them, or they break no operator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.registry.crd.crd import CustomStrategy, resources_of
from phalanx.embedded.controllers.operators.install import definitions
from phalanx.embedded.controllers.operators.job_set import jobs
from phalanx.embedded.controllers.operators.job_set.controller import judge as judge_job_set
from phalanx.embedded.controllers.operators.mpi_job import objects
from phalanx.embedded.controllers.operators.train_job import mpi
from phalanx.embedded.controllers.operators.train_job.job_set import STEP, make_job_set
from phalanx.embedded.controllers.operators.training import definition
from phalanx.embedded.controllers.operators.training.controller import judge as judge_training

META = {"name": "j", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
RESOURCES = {one["spec"]["names"]["kind"]: resources_of(one)[0] for one in definitions()}
WRONG = (None, "x", [{}], {}, ...)  # the last: it is not there
Path = tuple[str | int, ...]


def obj(kind: str, **spec: Any) -> Object:
    return {"apiVersion": RESOURCES[kind].api_version, "kind": kind, "metadata": META, "spec": spec}


def template(name: str = "node") -> Object:
    container = {
        "name": name,
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"name": "pytorchjob-port", "containerPort": 1}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    spec = {"containers": [container], "nodeSelector": {"a": "b"}, "tolerations": [{}], "volumes": [{"name": "v"}]}
    return {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}, "spec": spec}


def part(name: str, **labels: str) -> Object:
    spec = {"parallelism": 1, "template": template(name)}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": spec}}


def runtime(**policy: Any) -> Object:
    parts = [part("launcher", **{STEP: "trainer"}), part("node")]
    return obj("ClusterTrainingRuntime", mlPolicy=policy, template={"spec": {"replicatedJobs": parts}})


def train_job() -> Object:
    patch = {"template": {"spec": {"replicatedJobs": [part("node")]}}}
    patches = [{"manager": "m.io/m", "trainingRuntimeSpec": patch}]
    return obj("TrainJob", runtimeRef={"name": "r"}, runtimePatches=patches)


def pytorch_job(job: Object) -> None:
    judge_training(job, [], 0.0)
    for replica in definition.replicas(job):
        definition.make_service(job, replica)
        definition.make_pod(job, replica)


def job_set(one: Object) -> None:
    judge_job_set(one, [], 0.0)
    jobs.make_service(one)
    for replica in jobs.replicas(one):
        jobs.template_patch(one, replica, jobs.make_job(one, replica, suspended=False))


def mpi_job(job: Object) -> None:
    objects.config(job, [])
    objects.make_launcher(job)
    objects.make_worker(job, 0)


def of_runtime(one: Object) -> None:
    job = obj("TrainJob", runtimeRef={"name": "r"})
    made = make_job_set(job, one)
    if policy := (one["spec"].get("mlPolicy") or {}).get("mpi"):
        mpi.companions(job, policy, made)
    job_set({**made, "metadata": {**META, **made["metadata"]}})


def of_train_job(job: Object) -> None:
    made = make_job_set(job, runtime(mpi={"mpiImplementation": "OpenMPI"}))
    job_set({**made, "metadata": {**META, **made["metadata"]}})


CASES: list[tuple[Object, Callable[[Object], None]]] = [
    (obj("PyTorchJob", pytorchReplicaSpecs={"Master": {"template": template()}}), pytorch_job),
    (obj("JobSet", replicatedJobs=[part("a")]), job_set),
    (
        obj("MPIJob", mpiReplicaSpecs={"Launcher": {"template": template()}, "Worker": {"template": template()}}),
        mpi_job,
    ),
    (runtime(mpi={"mpiImplementation": "OpenMPI"}), of_runtime),
    (train_job(), of_train_job),
]


def places(value: Any, path: Path) -> Iterator[Path]:
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def changed(good: Object, path: Path, wrong: Any) -> Object:
    found = copy.deepcopy(good)
    at: Any = found
    for key in path[:-1]:
        at = at[key]
    if wrong is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = copy.deepcopy(wrong)
    return found


def refused(one: Object) -> str:
    """Return why the server refuses to store it, after its defaults; nothing: it does not."""
    strategy = RESOURCES[one["kind"]].strategy
    assert isinstance(strategy, CustomStrategy)
    try:
        strategy.decode(one)
        strategy.default(one)
    except StatusError as error:
        return str(error)
    return "; ".join(cause.line() for cause in strategy.validate(one))


@pytest.mark.slow
@pytest.mark.parametrize(("good", "act"), CASES, ids=[good["kind"] for good, _ in CASES])
def test_what_is_not_refused_breaks_no_operator(good: Object, act: Callable[[Object], None]) -> None:
    """A ValueError says at the object what is wrong; whatever else is raised would be a defect."""
    right = copy.deepcopy(good)
    assert not refused(right)
    act(right)
    for path in places(good["spec"], ("spec",)):
        for wrong in WRONG:
            one = changed(good, path, wrong)
            if refused(one):
                continue
            try:
                act(one)
            except ValueError:
                continue
            except Exception as error:  # report any error with the template
                raise AssertionError(f"{'.'.join(map(str, path))} is {wrong!r}: {error!r}") from error


_NODES: Path = ("spec", "template", "spec", "replicatedJobs", 1, "template", "spec", "parallelism")


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("PyTorchJob", ("spec", "pytorchReplicaSpecs", "Master", "replicas")),
        ("JobSet", ("spec", "replicatedJobs", 0, "replicas")),
        ("MPIJob", ("spec", "mpiReplicaSpecs", "Worker", "replicas")),
        ("ClusterTrainingRuntime", _NODES),
    ],
)
def test_of_more_than_there_may_be_nothing_is_made(kind: str, path: Path) -> None:
    """Two billion of anything would end the process that all controllers are in."""
    good, act = next(each for each in CASES if each[0]["kind"] == kind)
    with pytest.raises(ValueError, match="at most 10000 are allowed"):
        act(changed(good, path, 2_000_000_000))


def test_the_refusal_names_the_field() -> None:
    path = ("pytorchReplicaSpecs", "Master", "template", "spec", "containers")
    field = ".".join(("spec", *path))
    assert refused(changed(CASES[0][0], ("spec", *path), "x")).startswith(f"{field}: Invalid value: ")
    assert refused(changed(CASES[0][0], ("spec", *path), ...)).startswith(f"{field}: Required value")
