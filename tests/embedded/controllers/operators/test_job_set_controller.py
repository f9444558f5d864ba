"""JobSets and TrainJobs on the real embedded API server: the Jobs that they have, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import EVENTS, JOBS, PODS, SERVICES
from phalanx.dialects.job_kinds.job_set import JOB_SET
from phalanx.dialects.job_kinds.train_job import TRAIN_JOB
from phalanx.embedded.controllers.operators.install import install_operators
from phalanx.embedded.controllers.operators.train_job.controller import RUNTIMES
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

pytestmark = pytest.mark.slow  # real processes
LABEL = "jobset.sigs.k8s.io/"


def part(name: str, pods: int = 1, replicas: int = 1, **more: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "node", "image": "i"}]}
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": {"spec": pod}}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


async def submit(here: Cluster, *parts: Object, **spec: Any) -> None:
    await install_operators(here.connection)
    await here.make(JOB_SET.kind, "s", spec={"replicatedJobs": list(parts), **spec})


async def jobs(here: Cluster, *names: str) -> list[Object]:
    """Once there are these Jobs, and no others."""
    found = await here.until(
        lambda: here.list(JOBS), lambda some: [job["metadata"]["name"] for job in some] == [*names]
    )
    return list(found)


async def until_said(here: Cluster, kind: str, value: str = "True", of: Any = JOB_SET.kind, name: str = "s") -> Any:
    """The object's status, once that condition is so."""

    def holds(obj: Object | None) -> bool:
        found = (obj or {}).get("status", {}).get("conditions", ())
        return any((one["type"], one["status"]) == (kind, value) for one in found)

    obj = await here.until(lambda: here.get(of, name), holds)
    return obj["status"]


async def finish(here: Cluster, phase: str = "Succeeded", job: str = "") -> None:
    for pod in await here.list(PODS):
        if job in pod["metadata"]["name"] and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            try:
                await here.end(pod, phase)
            except ApiRefusal as error:  # one of a Job of before, which goes
                if error.code != 404:
                    raise


def test_its_jobs_are_named_and_labelled_as_its_operator_does(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, part("driver"), part("workers", 2, 2))
        found = await jobs(here, "s-driver-0", "s-workers-0", "s-workers-1")
        labels = found[2]["metadata"]["labels"]
        said = ("replicatedjob-name", "job-index", "job-global-index", "global-replicas", "restart-attempt")
        assert [labels[LABEL + name] for name in said] == ["workers", "1", "2", "3", "0"]
        assert found[2]["spec"]["template"]["metadata"]["labels"][f"{LABEL}jobset-name"] == "s"
        assert found[2]["spec"]["completionMode"] == "Indexed"
        service = await here.get(SERVICES, "s")
        assert service is not None
        assert service["spec"]["selector"] == {f"{LABEL}jobset-name": "s"}
        await here.pods(5)
        await finish(here)
        status = await until_said(here, "Completed")
        assert status["terminalState"] == "Completed"
        assert [(one["name"], one["succeeded"]) for one in status["replicatedJobsStatus"]] == [
            ("driver", 1),
            ("workers", 2),
        ]

    scenario(api_server, play)


def test_while_it_is_suspended_its_jobs_are_and_resumed_they_have_its_template(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, part("workers", 2), suspend=True)
        (job,) = await jobs(here, "s-workers-0")
        assert job["spec"]["suspend"] is True
        await until_said(here, "Suspended")
        assert await here.list(PODS) == []
        for number, pool in enumerate(("spot", "dear")):
            changed = part("workers", 2)
            changed["template"]["spec"]["template"]["spec"] |= {"nodeSelector": {"pool": pool}}
            await here.set(JOB_SET.kind, "s", spec={"suspend": False, "replicatedJobs": [changed]})
            await until_said(here, "Suspended", "False")
            pods = await here.pods(2)
            assert {pod["spec"]["nodeSelector"]["pool"] for pod in pods} == {pool}
            if not number:
                await here.set(JOB_SET.kind, "s", spec={"suspend": True})
                await here.pods(0)

    scenario(api_server, play)


def test_what_depends_on_others_is_made_when_they_are_so_far(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, part("a"), part("b", dependsOn=[{"name": "a", "status": "Complete"}]))
        await jobs(here, "s-a-0")
        await here.pods(1)
        await finish(here)
        assert len(await jobs(here, "s-a-0", "s-b-0")) == 2

    scenario(api_server, play)


def test_it_starts_anew_whole_so_often_and_then_it_has_failed(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, part("a"), part("b"), failurePolicy={"maxRestarts": 1})
        before = {job["metadata"]["uid"] for job in await jobs(here, "s-a-0", "s-b-0")}
        await here.pods(2)
        await finish(here, "Failed", "s-b-0")

        def anew(some: list[Object]) -> bool:
            return len(some) == 2 and not before & {job["metadata"]["uid"] for job in some}

        found = await here.until(lambda: here.list(JOBS), anew)
        assert {job["metadata"]["labels"][f"{LABEL}restart-attempt"] for job in found} == {"1"}
        new = [job["metadata"]["uid"] for job in found]
        await here.until(
            lambda: here.list(PODS),
            lambda pods: sum(pod["metadata"]["ownerReferences"][0]["uid"] in new for pod in pods) == 2,
        )
        await finish(here, "Failed", "s-a-0")
        status = await until_said(here, "Failed")
        (failed,) = [one for one in status["conditions"] if one["type"] == "Failed"]
        assert (failed["reason"], status["restarts"], status["terminalState"]) == ("ReachedMaxRestarts", 1, "Failed")
        await here.until(lambda: here.list(JOBS), lambda some: len(some) == 1)  # what ran still is deleted

    scenario(api_server, play)


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ({"successPolicy": {"operator": "Any", "targetReplicatedJobs": ["a"]}}, "Completed"),
        ({"failurePolicy": {"rules": [{"name": "r", "action": "FailJobSet"}], "maxRestarts": 9}}, "Failed"),
        ({}, "Failed"),
    ],
    ids=["any succeeded", "a rule fails it", "no policy"],
)
def test_how_it_ends(api_server: ServerProcess, policy: Object, end: str) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, part("a"), part("b"), **policy)
        await here.pods(2)
        await finish(here, "Succeeded" if end == "Completed" else "Failed", "s-a-0")
        assert (await until_said(here, end))["terminalState"] == end

    scenario(api_server, play)


def test_one_of_another_manager_is_left_alone(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await submit(here, part("a"), managedBy="kueue.x-k8s.io/multikueue")
        await here.make(JOB_SET.kind, "other", spec={"replicatedJobs": [part("a")]})
        [made] = await jobs(here, "other-a-0")
        assert made["metadata"]["ownerReferences"][0]["name"] == "other"

    scenario(api_server, play)


RUNTIME = {
    "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
    "template": {"spec": {"replicatedJobs": [part("node")]}},
}
RUNTIME["template"]["spec"]["replicatedJobs"][0]["template"]["metadata"] = {  # type: ignore[index]  # JSON
    "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
}


async def train(here: Cluster, **spec: Any) -> None:
    await install_operators(here.connection)
    await here.make(RUNTIMES["TrainingRuntime"], "torch", spec=RUNTIME)
    reference = {"kind": "TrainingRuntime", "name": "torch"}
    await here.make(TRAIN_JOB.kind, "t", spec={"runtimeRef": reference, **spec})


def test_a_train_job_is_the_job_set_of_its_runtime(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        trainer = {"numNodes": 3, "command": ["train"], "env": [{"name": "MINE", "value": "1"}]}
        await train(here, trainer={**trainer, "resourcesPerNode": {"requests": {"cpu": "2"}}})
        pods = await here.pods(3)
        (container,) = pods[0]["spec"]["containers"]
        assert (container["command"], container["resources"]["requests"]) == (["train"], {"cpu": "2"})
        said = {one["name"]: one.get("value") for one in container["env"]}
        names = ("MINE", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT")
        assert [said[name] for name in names] == ["1", "3", "auto", "t-node-0-0.t", "29400"]
        await finish(here)
        status = await until_said(here, "Complete", of=TRAIN_JOB.kind, name="t")
        assert status["jobsStatus"][0]["succeeded"] == 1

    scenario(api_server, play)


def test_a_suspended_train_job_has_its_job_set_which_follows_its_patches(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await train(here, suspend=True)
        await until_said(here, "Suspended", of=TRAIN_JOB.kind, name="t")
        made = await here.until(lambda: here.get(JOB_SET.kind, "t"), lambda one: one is not None)
        assert made["spec"]["suspend"] is True
        spec = TRAIN_JOB.edit({}, "node", {"template": {"spec": {"nodeSelector": {"pool": "spot"}}}})
        await here.set(TRAIN_JOB.kind, "t", spec={**spec, "suspend": False})
        (pod,) = await here.pods(1)
        assert pod["spec"]["nodeSelector"] == {"pool": "spot"}
        await until_said(here, "Suspended", "False", of=TRAIN_JOB.kind, name="t")

    scenario(api_server, play)


def test_a_train_job_without_its_runtime_says_so(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await install_operators(here.connection)
        reference = {"kind": "TrainingRuntime", "name": "torch"}
        await here.make(TRAIN_JOB.kind, "t", spec={"runtimeRef": reference})
        status = await until_said(here, "Failed", "False", of=TRAIN_JOB.kind, name="t")
        assert status["conditions"][0]["reason"] == "TrainingRuntimeNotSupported"
        assert "no TrainingRuntime torch" in status["conditions"][0]["message"]

    scenario(api_server, play)


def test_a_job_of_somebody_else_with_the_name_is_reported_until_it_is_gone(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        await here.make(JOBS, "s-w-0", spec={"suspend": True, "template": template})
        await submit(here, part("w"))
        text = 'jobs.batch "s-w-0" already exists'
        await here.until(lambda: here.list(EVENTS), lambda some: any(text in one["message"] for one in some))
        [foreign] = await here.list(JOBS)
        assert "ownerReferences" not in foreign["metadata"]
        await here.connection.delete(JOBS, "s-w-0", here.namespace)
        await here.pods(1)
        [own] = await here.list(JOBS)
        assert own["metadata"]["ownerReferences"][0]["kind"] == "JobSet"

    scenario(api_server, play)
