"""AdmissionChecks that make ProvisioningRequests, with a scripted autoscaler: Kueue's manifests, unchanged."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx import loop
from phalanx.cli.cluster.live_state.decision import think
from phalanx.cli.views.job.reading import views
from phalanx.cli.views.job.served import ServedViews
from phalanx.client.connection import Connection
from phalanx.client.kind import JOBS, NODES, Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.provisioning.requests import CLASS, CONSUME
from phalanx.embedded.controllers.run import run_controllers
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.install.definitions import served
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.model.reason import ReasonCode
from phalanx.state.cluster import Cluster
from tests.dialects.kueue.written import named
from tests.embedded.apiserver.process import ServerProcess
from tests.kube import double
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_admission_checks import counts, states
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import ON, conditions, job, stage_with, workload

CLASS_NAME = "check-capacity.autoscaling.x-k8s.io"
EXAMPLE = Path(__file__).parents[3] / "examples" / "autoscaling" / "provisioning-request.yaml"
REQUESTS = kinds.PROVISIONING_REQUESTS


def stage(cpu: int = 3, *, check: str = "prov", config: str = "prov-config", **spec: Any) -> Stage:
    """A ClusterQueue with a quota of `cpu` and a check; the only node has no free capacity."""
    found = stage_with(cpu, admissionChecks=[check])
    found.api.put(NODES, node("n1", 0))
    parameters = {"apiGroup": kinds.GROUP, "kind": "ProvisioningRequestConfig", "name": config}
    controller = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
    found.api.put(kinds.ADMISSION_CHECKS, named(check, spec=controller))
    found.api.put(kinds.PROVISIONING_CONFIGS, named("prov-config", spec={"provisioningClassName": CLASS_NAME, **spec}))
    return found


def submitted(name: str, pods: int = 2, **annotations: str) -> Object:
    """A Job as its user creates it, before the time of the stage."""
    found = job(name, pods)
    found["metadata"] |= {"creationTimestamp": write_moment(999.0), "annotations": annotations}
    return found


def requests(here: Stage) -> dict[str, Object]:
    """Name without the Workload's prefix -> the request."""
    prefix = workload(here, "one").get("metadata", {}).get("name", "")
    return {key.rpartition("/")[2].replace(prefix, "W"): one for key, one in here.api.objects[REQUESTS].items()}


def decide(here: Stage, request: str, kind: str, truth: bool = True, **more: Any) -> None:
    """As an autoscaler does."""
    found = requests(here)[request]
    status = found.get("status") or {}
    condition = {"type": kind, "status": str(truth), "reason": kind, "message": f"about {kind}"}
    listed = [one for one in status.get("conditions") or () if one["type"] != kind]
    here.api.put(REQUESTS, {**found, "status": {**status, "conditions": [*listed, condition], **more}})


def reason(here: Stage, name: str = "one") -> tuple[ReasonCode | None, str]:
    found = here.cluster.reason(f"default/{name}")
    return (None, "") if found is None else (found.code, found.text)


async def later(here: Stage, seconds: float) -> None:
    here.now_s += seconds
    await settle(here)


async def asked(here: Stage) -> None:
    """Until a request exists for the job `one`."""
    here.now_s += 2
    await here.until(lambda: bool(here.api.objects[REQUESTS]))


async def provisioned(here: Stage) -> None:
    """Let the first request be provisioned, and wait until its check is ready."""
    decide(here, "W-prov-1", "Provisioned")
    await here.until(lambda: states(here) == {"prov": "Ready"})


def test_quota_is_reserved_nodes_are_requested_and_the_pods_consume_the_request() -> None:
    async def scene() -> None:
        updates = {"nodeSelector": [{"key": "pool", "valueFromProvisioningClassDetail": "Pool"}]}
        here = stage(3, parameters={"noRetry": "true"}, podSetUpdates=updates)
        here.put(submitted("one", **{"provreq.kueue.x-k8s.io/forSeconds": "600"}), submitted("two"))
        async with here.scheduler():
            await asked(here)
            assert conditions(here, "one")["QuotaReserved"] == "True QuotaReserved"
            await here.until(lambda: conditions(here, "two").get("QuotaReserved") == "False WaitingForQuota")
            assert list(requests(here)) == ["W-prov-1"], "a job without quota requests nothing"
            (request,) = requests(here).values()
            assert request["spec"]["provisioningClassName"] == CLASS_NAME
            assert request["spec"]["parameters"] == {"noRetry": "true", "forSeconds": "600"}
            (pods,) = request["spec"]["podSets"]
            template = here.api.objects[kinds.POD_TEMPLATES][f"default/{pods['podTemplateRef']['name']}"]
            assert pods["count"] == 2
            assert template["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
            assert request["metadata"]["ownerReferences"][0]["uid"] == workload(here, "one")["metadata"]["uid"]
            await here.until(lambda: counts(here) == (1, 1, 0))
            events = [one for one in here.world.effects.reporter._events if "Provisioning" in one["reason"]]
            named = request["metadata"]["name"]
            assert [(one["involvedObject"]["kind"], one["message"]) for one in events] == [
                ("Workload", f'Created ProvisioningRequest: "{named}"')
            ]
            decide(here, "W-prov-1", "Accepted")
            await here.until(lambda: "Accepted=True: about Accepted" in reason(here)[1])
            assert reason(here)[0] is ReasonCode.WAITING_FOR_NODES
            decide(here, "W-prov-1", "Provisioned", provisioningClassDetails={"Pool": "a"})
            await here.until(lambda: states(here) == {"prov": "Ready"})
            await here.until(lambda: here.cluster.columns.groups.granted == {"default/one"})
            assert not here.api.pods(), "its nodes are not there yet"
            labelled = node("n2", 4)
            labelled["metadata"]["labels"] = {"pool": "a"}
            here.put_node(labelled)
            await here.until(lambda: len(here.api.bound()) == 2)
            await here.until(lambda: conditions(here, "one").get("Admitted") == "True Admitted")
            now = here.api.job("one")["spec"]["template"]
            assert now["metadata"]["annotations"] == {CONSUME: request["metadata"]["name"], CLASS: CLASS_NAME}
            assert now["spec"]["nodeSelector"] == {"pool": "a"}
            assert list(requests(here)) == ["W-prov-1"], "it is kept while the job runs: its capacity may be revoked"

    play(scene())


def test_a_failed_request_is_followed_by_another_with_back_off_and_rejected_in_the_end() -> None:
    async def scene() -> None:
        retry = {"backoffLimitCount": 2, "backoffBaseSeconds": 60, "backoffMaxSeconds": 100}
        here = stage(3, retryStrategy=retry)
        here.put(submitted("one"))
        async with here.scheduler():
            await asked(here)
            for attempt, pause_s in ((1, 60), (2, 100)):
                assert f"W-prov-{attempt}" in requests(here)
                decide(here, f"W-prov-{attempt}", "Failed")
                await here.until(lambda: conditions(here, "one")["QuotaReserved"].startswith("False"))
                assert conditions(here, "one")["Evicted"] == "True AdmissionCheck"
                assert reason(here)[0] is ReasonCode.HELD
                await later(here, pause_s - 5)
                assert f"W-prov-{attempt + 1}" not in requests(here), "it rests first"
                here.now_s += 7
                here.api.put(kinds.WORKLOADS, workload(here, "one") | {"x": f"looked at again {attempt}"})
                await here.until(lambda following=f"W-prov-{attempt + 1}": following in requests(here))
            decide(here, "W-prov-3", "Failed")
            await here.until(lambda: workload(here, "one")["spec"]["active"] is False)
            await here.until(lambda: conditions(here, "one").get("Evicted") == "True DeactivatedDueToAdmissionCheck")
            evictions = workload(here, "one")["status"]["schedulingStats"]["evictions"]
            assert {one["reason"]: one["count"] for one in evictions} == {"AdmissionCheck": 2, "Deactivated": 1}
            assert counts(here)[1:] == (0, 0)
            here.put_node(node("n2", 4))
            await settle(here)
            assert not here.api.pods()

    play(scene())


@pytest.mark.parametrize("kind", ["BookingExpired", "CapacityRevoked"])
def test_capacity_that_is_lost_before_the_nodes_came(kind: str) -> None:
    async def scene() -> None:
        here = stage()
        here.put(submitted("one"))
        async with here.scheduler():
            await asked(here)
            await provisioned(here)
            decide(here, "W-prov-1", kind)
            if kind == "CapacityRevoked":
                await here.until(lambda: workload(here, "one")["spec"]["active"] is False)
                return
            await here.until(lambda: conditions(here, "one")["QuotaReserved"].startswith("False"))
            assert "about BookingExpired" in reason(here)[1]

    play(scene())


def test_capacity_that_is_revoked_from_a_running_job_ends_it() -> None:
    async def scene() -> None:
        here = stage()
        here.put(submitted("one"))
        async with here.scheduler():
            await asked(here)
            await provisioned(here)
            here.put_node(node("n2", 4))
            await here.until(lambda: conditions(here, "one").get("Admitted") == "True Admitted")
            decide(here, "W-prov-1", "BookingExpired")
            await settle(here)
            assert len(here.api.bound()) == 2, "a job that runs needs no booking"
            decide(here, "W-prov-1", "CapacityRevoked")
            await here.until(lambda: not here.api.pods())
            assert workload(here, "one")["spec"]["active"] is False

    play(scene())


def test_a_job_that_finds_room_needs_no_request_and_its_own_is_deleted() -> None:
    async def scene() -> None:
        here = stage()
        here.put(submitted("one"))
        async with here.scheduler():
            await asked(here)
            here.put_node(node("n2", 4))
            await here.until(lambda: len(here.api.bound()) == 2)
            await here.until(lambda: states(here) == {"prov": "Ready"})
            await here.until(lambda: not here.api.objects[REQUESTS])
            assert "annotations" not in here.api.job("one")["spec"]["template"].get("metadata", {})

    play(scene())


def test_after_a_restart_the_same_request_is_waited_for() -> None:
    async def scene() -> None:
        here = stage()
        here.put(submitted("one"), submitted("two"))
        async with here.scheduler():
            await asked(here)
        async with here.scheduler():
            await settle(here, 60)
            assert list(requests(here)) == ["W-prov-1"]
            assert conditions(here, "one")["QuotaReserved"] == "True QuotaReserved"
            decide(here, "W-prov-1", "Provisioned")
            here.put_node(node("n2", 4))
            await here.until(lambda: len(here.api.bound()) == 2)

    play(scene())


async def told(here: Stage, text: str) -> None:
    """Until the reason of the job `one` has this text."""
    await here.until(lambda: text in reason(here)[1])


def words(here: Stage) -> dict[str, str]:
    """The state of the job `one`: as `phalanx jobs` has it from the scheduler, and as `phalanx explain` computes it."""
    served = ServedViews(here.cluster, here.world, here.caches, lambda: here.now_s, dict).answer(
        ("v1", "namespaces", "-", "jobs", "-", "row"), {}
    )
    assert served is not None
    caches = double.Caches(here.api)
    world = KubeWorld(
        double.Client(here.api),  # type: ignore[arg-type]  # a double
        caches,
        KubeSettings(dialects=here.dialects),
        lambda: here.now_s,
    )
    world.caches.look_up(list(here.api.objects))
    (listed,) = served()["items"]
    (computed,) = views(think(world, caches, here.now_s))
    return {"jobs": listed.state, "explain": computed.state}


def test_commands_have_one_word_for_a_job_that_waits_for_its_request() -> None:
    async def scene() -> None:
        here = stage()
        here.put(submitted("one"))
        async with here.scheduler():
            await asked(here)
            for kind, truth, state in (
                ("Accepted", True, "queued"),
                ("Provisioned", False, "queued"),
                ("Provisioned", True, "promised"),
            ):
                decide(here, "W-prov-1", kind, truth)
                await told(here, f"{kind}={truth}")
                assert words(here) == {"jobs": state, "explain": state}, (kind, truth)

    play(scene())


def test_a_class_that_nobody_handles_is_said() -> None:
    async def scene() -> None:
        here = stage()
        here.put(submitted("one"))
        async with here.scheduler():
            await asked(here)
            (request,) = here.api.objects[REQUESTS].values()
            here.api.put(
                REQUESTS, {**request, "metadata": {**request["metadata"], "creationTimestamp": write_moment(800.0)}}
            )
            await here.until(lambda: "no autoscaler has accepted ProvisioningRequest" in reason(here)[1])
            (check,) = workload(here, "one")["status"]["admissionChecks"]
            assert f"handles the class {CLASS_NAME}" in check["message"]

    play(scene())


def active(here: Stage) -> str:
    (found,) = (here.api.objects[kinds.ADMISSION_CHECKS]["prov"].get("status") or {}).get("conditions") or ({},)
    return f"{found.get('status')} {found.get('reason')}"


def test_a_config_that_does_not_exist_is_said_and_nothing_waits_in_silence() -> None:
    async def scene() -> None:
        here = stage(config="missing")
        here.put(submitted("one"))
        async with here.scheduler():
            await here.until(lambda: active(here) == "False BadParametersRef")
            await here.until(lambda: reason(here)[0] is ReasonCode.QUEUE_HELD)
            assert "references inactive AdmissionCheck(s): prov" in reason(here)[1]
            assert not here.api.objects[REQUESTS]

    play(scene())


def test_without_managed_resources_nothing_is_requested() -> None:
    async def scene() -> None:
        here = stage(managedResources=["nvidia.com/gpu"])
        here.put(submitted("one"))
        async with here.scheduler():
            here.now_s += 2
            await settle(here, 40)
            assert not here.api.objects[REQUESTS]
            here.put_node(node("n2", 4))
            await here.until(lambda: len(here.api.bound()) == 2)
            await here.until(lambda: states(here) == {"prov": "Ready"})

    play(scene())


@pytest.mark.slow
def test_on_a_real_server(tmp_path: Path) -> None:
    """The example in the guide works with the definition that `phalanx up` has."""

    async def scene(user: Connection) -> None:
        for body in yaml.safe_load_all(EXAMPLE.read_text()):
            kind = next(each for each in vars(kinds).values() if isinstance(each, Kind) and each.name == body["kind"])
            await user.create(kind, body, body["metadata"].get("namespace", ""))
        body = double.job("gang", 2)
        body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
        container = {
            "name": "c",
            "image": "x",
            "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "1", "memory": "1Gi"}},
        }
        body["spec"]["template"]["spec"] |= {"restartPolicy": "Never", "containers": [container]}
        await user.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", **body}, "default")

    async def run() -> None:
        async with (
            asyncio.timeout(120),
            await Connection.open(server.kubeconfig) as user,
            SharedInformers(user) as informers,
        ):
            controllers = asyncio.ensure_future(run_controllers(user, informers))
            await served(user, REQUESTS)
            async with open_world(user, informers, KubeSettings(dialects=ON)) as world:
                deciding = asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time))
                await scene(user)
                found = await eventually(informers, REQUESTS)
                assert found["spec"]["podSets"][0]["count"] == 2
                template = found["spec"]["podSets"][0]["podTemplateRef"]["name"]
                made = await user.get(kinds.POD_TEMPLATES, template, "default")
                assert made["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
                deciding.cancel()
            controllers.cancel()
            await asyncio.gather(controllers, deciding, return_exceptions=True)

    with ServerProcess.started(tmp_path) as server:
        asyncio.run(run())


async def eventually(informers: SharedInformers, kind: Kind) -> Object:
    """The first object of a kind, as soon as it exists."""
    news = asyncio.Event()
    informers(kind).subscribe(lambda change: news.set())
    while not informers(kind).objects:
        await news.wait()
        news.clear()
    return next(iter(informers(kind).objects.values()))


def test_a_job_that_waited_for_quota_gets_its_request_when_the_quota_is_free() -> None:
    async def scene() -> None:
        here = stage(5)
        here.put(submitted("one", 3))
        async with here.scheduler():
            await asked(here)
            here.put(submitted("large", 5))
            await provisioned(here)
            here.put_node(node("n2", 3))
            await here.until(lambda: len(here.api.bound()) == 3)
            await settle(here, 20)
            assert reason(here, "large")[0] is ReasonCode.QUEUE_LIMIT
            for pod in here.api.pods():
                here.finish(pod["metadata"]["name"])
            await here.until(lambda: conditions(here, "one").get("Finished", "").startswith("True"))
            await later(here, 20)
            assert reason(here, "large")[0] is ReasonCode.WAITING_FOR_NODES, reason(here, "large")

    play(scene())
