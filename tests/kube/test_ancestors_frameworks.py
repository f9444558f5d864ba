"""A framework's job is one gang: it waits as its own field says, is resumed by one write, and what it has made (Jobs,
and their pods) is a part of it."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.informer import key_of
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.dialects.job_kinds.job_set import JOB_SET
from phalanx.dialects.job_kinds.train_job import TRAIN_JOB
from phalanx.dialects.kueue import kinds
from phalanx.kube.read.workload.batch_job import ELSEWHERE
from tests.kube.double import Controller, Object, job, pod_spec
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import conditions, stage_with, workload

QUEUED = {"kueue.x-k8s.io/queue-name": "l"}
NAME_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"


class Operator(Controller):
    """JobSet's operator beside the Job controller: its Jobs exist from the first, suspended while it is. And the
    Trainer's, whose JobSets say what their TrainJobs patch."""

    def turn(self) -> None:
        for train in list(self.api.objects[TRAIN_JOB.kind].values()):
            self._carry(train)
        for obj in list(self.api.objects[JOB_SET.kind].values()):
            for one in obj["spec"]["replicatedJobs"]:
                self._sync(obj, one)
        super().turn()

    def _carry(self, train: Object) -> None:
        made = self.api.objects[JOB_SET.kind].get(key_of(train))
        if made is None:
            made = job_set(labels={})
            made["metadata"] |= {"name": train["metadata"]["name"], "ownerReferences": [owner("TrainJob", train)]}
        spec = {**made["spec"], "suspend": train["spec"]["suspend"]}
        for entry in train["spec"].get("runtimePatches", ()):
            for one in entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
                spec = JOB_SET.edit(spec, one["name"], one["template"]["spec"])
        if spec != made["spec"] or "uid" not in made["metadata"]:
            self.api.put(JOB_SET.kind, {**made, "spec": spec})

    def _sync(self, obj: Object, one: Object) -> None:
        name = f"{obj['metadata']['name']}-{one['name']}-0"
        known = self.api.objects[JOBS].get(f"default/{name}")
        if known is None and not (one.get("dependsOn") and not self._completed(obj, one["dependsOn"])):
            known = job(name, one["template"]["spec"]["parallelism"])
            meta = {"labels": {NAME_LABEL: one["name"]}, "ownerReferences": [owner("JobSet", obj)]}
            known["metadata"] |= meta
            known["spec"]["template"]["metadata"] = {"labels": meta["labels"]}
        if known is None:
            return
        template = {**known["spec"]["template"], "spec": one["template"]["spec"]["template"]["spec"]}
        spec = {**known["spec"], "suspend": bool(obj["spec"].get("suspend")), "template": template}
        if spec != known["spec"] or "uid" not in known["metadata"]:
            self.api.put(JOBS, {**known, "spec": spec})

    def _completed(self, obj: Object, others: list[Object]) -> bool:
        jobs = [self.api.objects[JOBS].get(f"default/{obj['metadata']['name']}-{one['name']}-0") for one in others]
        return all(one is not None and one["status"].get("conditions") for one in jobs)


def owner(kind: str, obj: Object) -> Object:
    return {"kind": kind, "name": obj["metadata"]["name"], "uid": obj["metadata"].get("uid", ""), "controller": True}


def job_set(name: str = "s", *, labels: dict[str, str] = QUEUED, **more: Any) -> Object:
    def part(name: str, pods: int, **more: Any) -> Object:
        inner = {"parallelism": pods, "completions": pods, "template": {"spec": pod_spec()}}
        return {"name": name, "template": {"spec": inner}, **more}

    spec = {"suspend": True, "replicatedJobs": [part("driver", 1), part("workers", 3, **more)]}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}


def stage(cpu: int) -> Stage:
    found = stage_with(cpu)
    found.controller = Operator(found.api)
    return found


def test_a_job_set_waits_whole_and_starts_whole() -> None:
    async def scene() -> None:
        here = stage(3)
        here.api.put(JOB_SET.kind, job_set())
        async with here.scheduler():
            await here.until(lambda: conditions(here, "s").get("QuotaReserved") == "False ExceedsMaxQuota")
            await settle(here)
            assert not here.api.pods()
            assert set(here.world.gangs) == {"default/s"}, "its Jobs are no gangs of their own"
            queue = here.api.objects[kinds.CLUSTER_QUEUES]["a"]
            queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 4
            here.api.put(kinds.CLUSTER_QUEUES, queue)
            await here.until(lambda: len(here.api.bound()) == 4)
            await here.until(lambda: conditions(here, "s").get("Admitted") == "True Admitted")
            writes = [one for one in here.api.writes if "jobsets" in one]
            assert len([one for one in writes if one.startswith("patch")]) <= 2, "resumed by one write, and a reason"
            found = workload(here, "s")
            assert [(one["name"], one["count"]) for one in found["spec"]["podSets"]] == [("driver", 1), ("workers", 3)]
            (reference,) = found["metadata"]["ownerReferences"]
            assert (reference["kind"], reference["controller"]) == ("JobSet", True)
            assert found["metadata"]["name"].startswith("jobset-s-")

    play(scene())


def test_what_depends_on_others_has_its_room_and_holds_nothing_up() -> None:
    async def scene() -> None:
        here = stage(4)
        here.api.put(JOB_SET.kind, job_set(dependsOn=[{"name": "driver", "status": "Complete"}]))
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 1)
            await settle(here)
            assert here.phase("s") == "running"
            usage = workload(here, "s")["status"]["admission"]["podSetAssignments"]
            assert [one["resourceUsage"]["cpu"] for one in usage] == ["1", "3"]
            (driver,) = here.api.pods()
            here.api.put(PODS, {**driver, "status": {"phase": "Succeeded"}})
            await here.until(lambda: len(here.api.bound()) == 4)

    play(scene())


def test_a_train_job_is_its_job_sets_roles_and_what_a_flavor_says_goes_into_its_patches() -> None:
    async def scene() -> None:
        here = stage(4)
        here.api.put(kinds.RESOURCE_FLAVORS, {"metadata": {"name": "f"}, "spec": {"nodeLabels": {"pool": "p"}}})
        node = here.api.objects[NODES]["n1"]
        node["metadata"]["labels"] = {"pool": "p"}
        here.put_node(node)
        meta = {"name": "t", "namespace": "default", "labels": QUEUED}
        here.api.put(TRAIN_JOB.kind, {"metadata": meta, "spec": {"suspend": True, "runtimeRef": {"name": "torch"}}})
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
            assert set(here.world.gangs) == {"default/t"}
            train = here.api.objects[TRAIN_JOB.kind]["default/t"]
            assert not train["spec"]["suspend"]
            assert {one["spec"]["nodeSelector"]["pool"] for one in here.api.pods()} == {"p"}
            await here.until(lambda: conditions(here, "t").get("Admitted") == "True Admitted")

    play(scene())


def test_a_train_job_for_another_cluster_is_refused_with_a_reason() -> None:
    async def scene() -> None:
        here = stage(4)
        meta = {"name": "t", "namespace": "default", "labels": QUEUED}
        spec = {"suspend": True, "managedBy": ELSEWHERE, "runtimeRef": {"name": "torch"}}
        here.api.put(TRAIN_JOB.kind, {"metadata": meta, "spec": spec})
        async with here.scheduler():
            await settle(here, 20)
            assert "t is a TrainJob, which cannot be sent to another cluster: give it a queue" in here.reason("t")
            assert not here.api.bound()

    play(scene())


@pytest.mark.parametrize("taken", [True, False], ids=["by the operator", "deactivated"])
def test_it_is_taken_back_whole(taken: bool) -> None:
    async def scene() -> None:
        here = stage(4)
        here.api.put(JOB_SET.kind, job_set())
        async with here.scheduler():
            await here.until(lambda: conditions(here, "s").get("Admitted") == "True Admitted")
            if taken:
                obj = here.api.objects[JOB_SET.kind]["default/s"]
                here.api.put(JOB_SET.kind, {**obj, "spec": {**obj["spec"], "suspend": True}})
                await here.until(lambda: not here.api.pods())
                return
            found = workload(here, "s")
            here.api.put(kinds.WORKLOADS, {**found, "spec": {**found["spec"], "active": False}})
            await here.until(lambda: not here.api.pods())
            assert here.api.objects[JOB_SET.kind]["default/s"]["spec"]["suspend"]
            assert conditions(here, "s")["Evicted"] == "True Deactivated"

    play(scene())


def test_after_a_restart_it_is_one_gang_that_runs() -> None:
    async def scene() -> None:
        here = stage(4)
        here.api.put(JOB_SET.kind, job_set())
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
        writes = len(here.api.writes)
        async with here.scheduler():
            await settle(here)
            assert here.phase("s") == "running"
            assert set(here.world.gangs) == {"default/s"}
            assert not [one for one in here.api.writes[writes:] if "jobsets" in one]

    play(scene())


def test_one_that_names_no_queue_is_not_ours_and_its_jobs_are_what_they_say() -> None:
    async def scene() -> None:
        here = stage(4)
        obj = job_set(labels={})
        here.api.put(JOB_SET.kind, obj | {"spec": obj["spec"] | {"suspend": False}})
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 4)
            assert set(here.world.gangs) == {"default/s-driver-0", "default/s-workers-0"}

    play(scene())
