"""Volcano Jobs on the real embedded API server: their objects, how they end, and what users command."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import CONFIG_MAPS, EVENTS, PODS, SECRETS, SERVICES, STATEFUL_SETS, VOLUME_CLAIMS
from phalanx.embedded.controllers.operators.volcano.kinds import COMMANDS, ELSEWHERE, JOBS, POD_GROUPS, QUEUES
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.operators.volcano.written import task

pytestmark = pytest.mark.slow  # real processes


async def phase(here: Cluster, wanted: str, name: str = "j") -> Any:
    """The job's status once it is in that phase."""

    def holds(job: Object | None) -> bool:
        return ((job or {}).get("status") or {}).get("state", {}).get("phase") == wanted

    return (await here.until(lambda: here.get(JOBS, name), holds))["status"]


async def begin(here: Cluster, *pods: Object) -> None:
    for pod in pods:
        body = {"status": {"phase": "Running"}}
        await here.connection.patch(PODS, pod["metadata"]["name"], body, here.namespace, "status")


def test_a_job_that_another_cluster_runs_has_no_pods(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        spec = {"tasks": [task("worker", 1)]}
        await here.make(JOBS, "sent", spec={**spec, "schedulerName": ELSEWHERE})
        await here.make(JOBS, "kept", spec=spec)
        (pod,) = await here.pods(1)
        assert pod["metadata"]["name"] == "kept-worker-0"
        await begin(here, pod)
        await phase(here, "Running", "kept")
        assert len(await here.list(PODS)) == len(await here.list(POD_GROUPS)) == 1
        assert "status" not in (await here.get(JOBS, "sent") or {})

    scenario(volcano_server, play)


def test_a_job_that_another_cluster_has_run_is_deleted_when_its_time_is_up(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        spec = {"tasks": [task("worker", 1)], "schedulerName": ELSEWHERE, "ttlSecondsAfterFinished": 0}
        await here.make(JOBS, "sent", spec=spec)
        ended = {"state": {"phase": "Completed", "lastTransitionTime": "2026-01-01T00:00:00Z"}}
        await here.connection.patch(JOBS, "sent", {"status": ended}, here.namespace, "status")
        await here.gone(JOBS, "sent")
        assert await here.get(JOBS, "sent") is None

    scenario(volcano_server, play)


def test_a_job_from_its_creation_to_its_end(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        plugins: Object = {"env": [], "svc": [], "ssh": []}
        made = await here.make(JOBS, "j", spec={"tasks": [task("master", 1), task("worker", 1)], "plugins": plugins})
        pods = await here.pods(2)
        assert [pod["metadata"]["name"] for pod in pods] == ["j-master-0", "j-worker-0"]
        (group,) = await here.list(POD_GROUPS)
        assert (group["metadata"]["name"], group["spec"]["minMember"]) == (f"j-{made['metadata']['uid']}", 2)
        assert (await here.get(SERVICES, "j") or {})["spec"]["clusterIP"] == "None"
        assert (await here.get(CONFIG_MAPS, "j-svc") or {})["data"]["VC_WORKER_HOSTS"] == "j-worker-0.j"
        assert set((await here.get(SECRETS, "j-ssh") or {})["data"]) == {
            "id_rsa",
            "id_rsa.pub",
            "authorized_keys",
            "config",
        }
        await begin(here, *pods)
        running = await phase(here, "Running")
        assert running["controlledResources"] == {"plugin-env": "env", "plugin-svc": "svc", "plugin-ssh": "ssh"}
        for pod in pods:
            await here.end(pod)
        ended = await phase(here, "Completed")
        assert (ended["succeeded"], ended["minAvailable"]) == (2, 2)
        assert [one["status"] for one in ended["conditions"]] == ["Pending", "Running", "Completed"]
        for kind, name in (
            (SERVICES, "j"),
            (CONFIG_MAPS, "j-svc"),
            (SECRETS, "j-ssh"),
            (POD_GROUPS, group["metadata"]["name"]),
        ):
            await here.gone(kind, name)
        assert len(await here.list(PODS)) == 2

    scenario(volcano_server, play)


def test_gangs_that_never_start_are_told_why(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        late = task("b", 1, dependsOn={"name": ["a"]})
        await here.make(JOBS, "j", spec={"tasks": [task("a", 1), late]})
        container = {"name": "c", "image": "i"}
        spec = {
            "replicas": 2,
            "serviceName": "s",
            "selector": {"matchLabels": {"app": "s"}},
            "template": {
                "metadata": {"labels": {"app": "s"}},
                "spec": {"schedulerName": "volcano", "containers": [container]},
            },
        }
        notes = {"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}
        await here.make(STATEFUL_SETS, "s", spec=spec, metadata=notes)

        def told(events: list[Object]) -> bool:
            found = {(one["involvedObject"]["kind"], one["reason"]) for one in events}
            wanted = {("Job", "NeverStarts"), ("StatefulSet", "GangNeverComplete"), ("Pod", "GangNeverComplete")}
            return wanted <= found

        assert await here.until(lambda: here.list(EVENTS), told)

    scenario(volcano_server, play)


def test_a_failed_pod_restarts_the_job_until_its_retries_are_used_up(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        await here.make(JOBS, "j", spec={"tasks": [task("a", 2)], "policies": policies, "maxRetry": 2})
        first = await here.pods(2)
        await begin(here, *first)
        await here.end(first[0], "Failed")

        def renewed(pods: list[Object]) -> bool:
            old = {pod["metadata"]["uid"] for pod in first}
            return len(pods) == 2 and not old & {pod["metadata"]["uid"] for pod in pods}

        second = await here.until(lambda: here.list(PODS), renewed)
        assert second[0]["metadata"]["annotations"]["volcano.sh/job-version"] == "1"
        assert second[0]["metadata"]["annotations"]["volcano.sh/job-retry-count"] == "1"
        await begin(here, *second)
        await here.end(second[1], "Failed")
        status = await phase(here, "Failed")
        assert status["retryCount"] == 2
        left = await here.pods(1)
        assert left[0]["metadata"]["name"] == "j-a-1"  # the last failure is kept

    scenario(volcano_server, play)


def test_a_pod_that_somebody_deletes_is_evicted(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        policies = [{"event": "PodEvicted", "action": "TerminateJob"}]
        await here.make(JOBS, "j", spec={"tasks": [task("a", 2)], "policies": policies})
        pods = await here.pods(2)
        await begin(here, *pods)
        await phase(here, "Running")
        await here.connection.delete(PODS, "j-a-1", here.namespace, {"gracePeriodSeconds": 0})
        ended = await phase(here, "Terminated")
        assert [one["status"] for one in ended["conditions"]][-1] == "Terminated"
        assert await here.until(lambda: here.list(PODS), lambda left: not left) == []

    scenario(volcano_server, play)


def command(action: str, target: Object) -> Object:
    named = {key: target["metadata"][key] for key in ("name", "uid")}
    return {"action": action, "target": {"apiVersion": target["apiVersion"], "kind": target["kind"], **named}}


def test_commands_abort_and_resume_a_job(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        job = await here.make(JOBS, "j", spec={"tasks": [task("a", 1)]})
        (pod,) = await here.pods(1)
        await here.make(COMMANDS, "stop", **command("AbortJob", job))
        await phase(here, "Aborted")
        await here.gone(PODS, pod["metadata"]["name"])
        assert await here.list(COMMANDS) == []
        await here.make(COMMANDS, "go", **command("ResumeJob", job))
        status = await phase(here, "Pending")
        assert status["retryCount"] == 1
        await here.pods(1)
        events = await here.until(
            lambda: here.list(EVENTS), lambda found: "CommandIssued" in {one["reason"] for one in found}
        )
        assert events

    scenario(volcano_server, play)


def test_commands_close_and_open_a_queue_and_those_below(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        top, low = f"{here.namespace}-top", f"{here.namespace}-low"
        queue = await here.make(QUEUES, top, spec={})
        below = await here.make(QUEUES, low, spec={"parent": top})

        async def state(name: str, wanted: str) -> None:
            await here.until(
                lambda: here.get(QUEUES, name), lambda one: (one.get("status") or {}).get("state") == wanted
            )

        async def ask(action: str, about: Object, namespace: str = "default") -> None:
            """Until it is carried out."""
            body = {"metadata": {"generateName": "c-"}, **command(action, about)}
            made = await here.connection.create(COMMANDS, body, namespace)
            name = made["metadata"]["name"]

            async def left() -> list[str]:
                items = (await here.connection.list(COMMANDS, namespace))["items"]
                return [one["metadata"]["name"] for one in items]

            await here.until(left, lambda names: name not in names)

        await ask("CloseQueue", queue, here.namespace)  # the owner of a namespace has no rights on queues
        await ask("CloseQueue", below)
        await state(low, "Closed")
        assert "state" not in ((await here.get(QUEUES, top) or {}).get("status") or {})
        await ask("OpenQueue", below)
        await state(low, "Open")
        await here.make(POD_GROUPS, "last", spec={"queue": low, "minMember": 1})
        await here.until(lambda: here.list(POD_GROUPS), len)
        await ask("CloseQueue", below)
        await state(low, "Closing")
        await here.connection.delete(POD_GROUPS, "last", here.namespace)
        await state(low, "Closed")
        await ask("OpenQueue", below)
        await ask("CloseQueue", queue)
        await state(top, "Closed")
        await state(low, "Closed")
        await ask("OpenQueue", below)  # no queue opens below a closed one
        await ask("OpenQueue", queue)
        await state(top, "Open")
        await state(low, "Open")

    scenario(volcano_server, play)


def test_more_replicas_are_more_hosts(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        spec = {"tasks": [task("a", 1)], "plugins": {"svc": []}}
        await here.make(JOBS, "j", spec=spec)
        await here.pods(1)
        await here.set(JOBS, "j", spec={"tasks": [task("a", 2)]})
        await here.pods(2)
        config = await here.until(lambda: here.get(CONFIG_MAPS, "j-svc"), lambda one: one["data"]["VC_A_NUM"] == "2")
        assert config["data"]["a.host"] == "j-a-0.j\nj-a-1.j"

    scenario(volcano_server, play)


def test_volumes_are_claimed_and_kept(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
        volumes: list[Object] = [
            {"mountPath": "/out", "volumeClaim": claim},
            {"mountPath": "/in", "volumeClaimName": "data"},
        ]
        await here.make(JOBS, "j", spec={"tasks": [task("a", 1)], "volumes": volumes})
        made = await here.until(lambda: here.list(VOLUME_CLAIMS), lambda found: len(found) == 1)
        assert await here.list(PODS) == []  # the claim `data` is not there
        await here.make(VOLUME_CLAIMS, "data", spec=claim)
        (pod,) = await here.pods(1)
        claims = [
            one["persistentVolumeClaim"]["claimName"]
            for one in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in one
        ]
        assert claims == [made[0]["metadata"]["name"], "data"]

    scenario(volcano_server, play)


def test_a_finished_job_goes_after_its_time(volcano_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.make(JOBS, "j", spec={"tasks": [task("a", 1)], "ttlSecondsAfterFinished": 0})
        (pod,) = await here.pods(1)
        await here.end(pod)
        await here.gone(JOBS, "j")
        assert await here.get(JOBS, "j") is None

    scenario(volcano_server, play)
