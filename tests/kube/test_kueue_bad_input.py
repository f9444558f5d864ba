"""Bad input in Kueue's kinds: the error is reported on its object, and the jobs of other users start."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from phalanx import loop
from phalanx.client.connection import Connection
from phalanx.client.kind import CRDS, JOBS
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.install.definitions import crds_of
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named
from tests.embedded.apiserver.process import ServerProcess
from tests.kube import double
from tests.kube.double import Object
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import ON, conditions, job, stage_with, workload
from tests.kube.test_real_server import furnish


def beside(stage: Stage, **spec: Any) -> None:
    """A second ClusterQueue `bad` with its LocalQueue `m`, and a job that waits in it."""
    quota = group(**{spec.pop("flavor", "f"): {"cpu": spec.pop("amount", 3)}})
    stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("bad", quota, **spec))
    stage.api.put(kinds.LOCAL_QUEUES, local_queue("m", "bad"))
    waits = job("waits", 1)
    waits["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "m"
    stage.put(waits)


def active(stage: Stage, name: str) -> tuple[str, str]:
    """Its condition Active: reason and message."""
    status = stage.api.objects[kinds.CLUSTER_QUEUES][name].get("status") or {}
    found: Object = next((one for one in status.get("conditions") or () if one["type"] == "Active"), {})
    return str(found.get("reason")), str(found.get("message"))


def test_a_cycle_of_cohorts() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        for name, parent in (("x", "y"), ("y", "x")):
            stage.api.put(kinds.COHORTS, named(name, spec={"parentName": parent}))
        beside(stage, cohortName="x")
        stage.put(job("well", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "well").get("Admitted") == "True Admitted")
            await stage.until(lambda: active(stage, "bad")[0] == "CohortCycleDetected")
            said = 'Can\'t admit new workloads: Cohort "x" has a cycle in hierarchy.'
            assert active(stage, "bad")[1] == said
            await stage.until(lambda: conditions(stage, "waits").get("QuotaReserved") == "False Suspended")
            assert workload(stage, "waits")["status"]["conditions"][0]["message"] == f"ClusterQueue bad: {said}"
            stage.api.put(kinds.COHORTS, named("y", spec={}))
            await stage.until(lambda: conditions(stage, "waits").get("Admitted") == "True Admitted")
            assert active(stage, "bad") == ("Ready", "Can admit new workloads")

    play(scene())


def test_an_unknown_flavor() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        beside(stage, flavor="none")
        stage.put(job("well", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "well").get("Admitted") == "True Admitted")
            await stage.until(lambda: active(stage, "bad")[0] == "FlavorNotFound")
            said = "Can't admit new workloads: references missing ResourceFlavor(s): none."
            assert active(stage, "bad")[1] == said
            await stage.until(lambda: conditions(stage, "waits").get("QuotaReserved") == "False Suspended")
            assert workload(stage, "waits")["status"]["conditions"][0]["message"] == f"ClusterQueue bad: {said}"

    play(scene())


BEYOND = " is {}, which is more than any cluster has"
UNREADABLE = ": {!r} is not a quantity; write for instance 500m, 2 or 1.5Gi"


@pytest.mark.parametrize(("most", "why"), [("1e400", BEYOND), ("10Ei", BEYOND), ("many", UNREADABLE)])
def test_a_quota_beyond_all_bounds_or_unreadable(most: str, why: str) -> None:
    async def scene() -> None:
        stage = stage_with(3)
        beside(stage, amount=most)
        stage.put(job("well", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "well").get("Admitted") == "True Admitted")
            await stage.until(lambda: active(stage, "bad")[0] == "Unknown")
            said = f"Can't admit new workloads: cpu of flavor f{why.format(most)}."
            assert active(stage, "bad")[1] == said
            await stage.until(lambda: conditions(stage, "waits").get("QuotaReserved") == "False Suspended")

    play(scene())


def test_a_workload_that_somebody_edits() -> None:
    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("one", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            before: Object = workload(stage, "one")
            pod_set = {**before["spec"]["podSets"][0], "count": 100}
            spec = {**before["spec"], "priority": 99, "podSets": [pod_set], "queueName": "nowhere"}
            odd = {"type": "Admitted", "status": "Unknown", "reason": "Odd", "message": "", "lastTransitionTime": "x"}
            stage.api.put(kinds.WORKLOADS, {**before, "spec": spec, "status": {"conditions": [odd]}})
            stage.put(job("well", 1))
            await stage.until(lambda: conditions(stage, "well").get("Admitted") == "True Admitted")
            await stage.until(lambda: conditions(stage, "one").get("Admitted") == "True Admitted")
            after = workload(stage, "one")["status"]
            assert after["admission"] == before["status"]["admission"]
            await stage.until(lambda: len(stage.api.bound()) == 3)

    play(scene())


@pytest.mark.slow
def test_a_version_of_a_definition_that_is_not_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The ClusterQueues of another release: the dialect stays off and says why, and jobs of ours start."""

    async def scene(kubeconfig: Path) -> None:
        async with await Connection.open(kubeconfig) as user, SharedInformers(user) as informers:
            await user.create(CRDS, other_release())
            await furnish(user, double.job("well", 1))
            async with open_world(user, informers, KubeSettings(dialects=ON)) as world:
                deciding = asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time))
                async with asyncio.timeout(120):
                    while (await user.get(JOBS, "well", "default"))["spec"]["suspend"]:  # noqa: ASYNC110 (the server is waited for)
                        await asyncio.sleep(0.05)
                deciding.cancel()
                await asyncio.gather(deciding, return_exceptions=True)
        assert "clusterqueues.kueue.x-k8s.io serves v1beta9, but the dialect kueue reads v1beta2" in caplog.text

    def other_release() -> Object:
        plural = kinds.CLUSTER_QUEUES.plural
        found = next(one for one in crds_of(KUEUE) if one["spec"]["names"]["plural"] == plural)
        version = {**found["spec"]["versions"][0], "name": "v1beta9", "storage": True, "served": True}
        return {**found, "spec": {**found["spec"], "versions": [version]}}

    with ServerProcess.started(tmp_path) as server:
        asyncio.run(scene(server.kubeconfig))
