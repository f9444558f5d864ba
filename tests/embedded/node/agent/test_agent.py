"""Pods as processes, through a real API server: what a user sees of them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, SECRETS
from phalanx.embedded.node.agent.pod import agent_pod
from phalanx.embedded.node.agent.pod.status_writer import PodStatusWriter
from phalanx.embedded.node.container.image import read_images
from phalanx.embedded.node.container.isolation import Isolation
from phalanx.embedded.node.machine.settings import Patience
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import asking, container
from tests.embedded.node.waiting import until

pytestmark = pytest.mark.slow  # real processes

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="volume mounts need a mount namespace, which needs root")


def shell(text: str, name: str = "main", **more: object) -> dict:
    return container(name, "sh", "-c", text, **more)


def ended(pod: dict, index: int = 0) -> dict:
    return pod["status"]["containerStatuses"][index]["state"]["terminated"]


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_this_machine_is_a_node(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        node = await api.connection.get(NODES, api.node)
        capacity = node["status"]["capacity"]
        assert (capacity["cpu"], capacity["memory"], capacity["pods"]) == ("6", "8Gi", "110")
        assert capacity["ephemeral-storage"].endswith("Ki")
        ready = {one["type"]: one["status"] for one in node["status"]["conditions"]}
        assert (ready["Ready"], ready["DiskPressure"]) == ("True", "False")
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == api.node
        assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] > 0
        lease = await api.connection.get(LEASES, api.node, "kube-node-lease")

        async def renewed() -> bool:
            later = await api.connection.get(LEASES, api.node, "kube-node-lease")
            return later["spec"]["renewTime"] > lease["spec"]["renewTime"]

        await until(renewed)

    scenario(api_server, test)


def test_a_pod_runs_and_kubectl_logs_shows_its_words(api_server: ServerProcess) -> None:
    env = [
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "paint", "key": "colour"}}},
    ]

    async def test(api: Client) -> None:
        await api.make(CONFIG_MAPS, "paint", data={"colour": "red"})
        text = 'echo "$WHO" on "$WHERE" is "$COLOUR" in "$PWD"'
        await api.run(container("main", "sh", "-c", text, env=env, workingDir="/usr"))
        pod = await api.phase("Succeeded")
        assert await api.logs() == f"p on {api.node} is red in /usr"
        assert (ended(pod)["exitCode"], ended(pod)["reason"]) == (0, "Completed")
        told = (await api.connection.list(EVENTS, api.namespace))["items"]
        assert told == []  # the status says it

    scenario(api_server, test)


def test_a_program_of_a_moment_has_one_status(api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    write, written = PodStatusWriter.write, list[str]()

    async def count(self: PodStatusWriter, pod: dict[str, Any], status: dict[str, Any]) -> bool:
        if status != self.written:
            written.append(status["phase"])
        return await write(self, pod, status)

    monkeypatch.setattr(PodStatusWriter, "write", count)
    monkeypatch.setattr(agent_pod, "_MOMENT_S", 60.0)  # for a busy machine

    async def test(api: Client) -> None:
        await api.run(shell("exit 3"))
        await api.phase("Failed")
        assert written == ["Failed"]

    scenario(api_server, test)


def test_following_the_log_ends_with_the_container(api_server: ServerProcess, tmp_path: Path) -> None:
    async def test(api: Client) -> None:
        flag = tmp_path / "go"
        await api.run(shell(f"echo first; until [ -e {flag} ]; do sleep 0.01; done; echo last"))
        pod = await api.phase("Running")
        assert pod["status"]["conditions"][2] | {"lastTransitionTime": ""} == {
            "type": "Ready",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "",
        }
        following = asyncio.create_task(api.logs(follow="true"))
        flag.touch()
        assert await following == "first\nlast"

    scenario(api_server, test)


def test_a_failed_pod_keeps_its_exit_code(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(shell("cat /proc/self/oom_score_adj; exit 3"))
        pod = await api.phase("Failed")
        assert (ended(pod)["exitCode"], ended(pod)["reason"]) == (3, "Error")
        assert await api.logs() == "1000"  # where memory is short, who asks for none goes first

    scenario(api_server, test)


def test_what_does_not_fit_is_rejected_until_there_is_room(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "1000", resources={"requests": {"cpu": "4"}}), name="first")
        await api.phase("Running", "first")
        await api.run(asking("main", cpu="4"), name="second")
        pod = await api.phase("Failed", "second")
        assert pod["status"]["reason"] == "OutOfcpu"
        text = "Node didn't have enough resource: cpu, requested: 4000, used: 4000, capacity: 6000"
        assert pod["status"]["message"] == f"Pod was rejected: {text}"
        assert await api.events("OutOfcpu") == [text]
        await api.delete("first", gracePeriodSeconds=1)
        await api.until(lambda pod: pod is None, "first")
        await api.run(asking("main", cpu="4"), name="third")
        await api.phase("Succeeded", "third")

    scenario(api_server, test)


def test_deletion_ends_the_processes_then_the_object(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(shell("trap 'echo bye; exit 0' TERM; echo $$$$; while :; do sleep 0.01; done"))
        await api.phase("Running")
        async with api.lines(follow="true") as lines:
            pid = await anext(lines)
            await api.delete()
            assert "bye" in [line async for line in lines]
        await api.until(lambda pod: pod is None)
        assert not alive(pid)

    scenario(api_server, test)


def test_who_does_not_listen_is_killed_after_the_grace(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(shell("trap '' TERM; echo $$$$; while :; do sleep 0.01; done"), meta={"finalizers": ["t/keep"]})
        await api.phase("Running")
        pid = await _said(api)
        await api.delete(gracePeriodSeconds=1)
        pod = await api.phase("Failed")
        assert ended(pod)["exitCode"] == 137
        assert not alive(pid)
        assert await api.logs() == pid  # kept as long as the object is

    scenario(api_server, test)


async def _said(api: Client) -> str:
    """What it wrote, once it wrote something."""
    return await until(api.logs)


def test_crashes_are_restarted_with_a_pause(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(shell("echo try; exit 1"), restartPolicy="OnFailure")
        await api.until(lambda pod: pod["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 2)
        assert "restarting failed container=main" in await api.waits("CrashLoopBackOff")
        assert (await api.logs(previous="true")) == "try"
        assert (await api.events("BackOff"))[0].startswith("Back-off restarting failed container main in pod p_")
        assert "Started container main" in await api.events("Started")  # of the second start

    scenario(api_server, test)


def test_other_images_say_what_to_do(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run({"name": "main", "image": "nginx:1.27"})
        assert 'use "image: host"' in await api.waits("ImagePullBackOff")
        failures = await api.events("Failed", count=3)
        assert any('use "image: host"' in message for message in failures)
        assert "Error: ErrImagePull" in failures
        assert await api.events("BackOff") == ['Back-off pulling image "nginx:1.27"']
        with pytest.raises(ApiRefusal, match="is waiting to start"):
            await api.logs()

    scenario(api_server, test)


@as_root
def test_an_image_that_this_machine_stands_in_for(api_server: ServerProcess, tmp_path: Path) -> None:
    place = f"/phalanx-test-{os.getpid()}"
    (tmp_path / "start").write_text('#!/bin/sh\necho "$0 $1, $COLOUR, in $PWD"\n')
    (tmp_path / "start").chmod(0o755)
    (tmp_path / "images.yaml").write_text(
        f"images: {{'acme/train:1': {{entrypoint: [{place}/start], command: [hello], env: {{COLOUR: red}}, "
        f"workingDir: /usr, paths: {{{place}: .}}}}}}"
    )

    async def test(api: Client) -> None:
        await api.run({"name": "main", "image": "acme/train:1"}, name="as-it-is")
        await api.run({"name": "main", "image": "acme/train:1", "args": ["you"]}, name="with-args")
        await api.run({"name": "main", "image": "host:latest", "command": ["true"]}, name="the-machine-with-a-tag")
        await api.phase("Succeeded", "the-machine-with-a-tag")
        await api.phase("Succeeded", "as-it-is")
        await api.phase("Succeeded", "with-args")
        assert await api.logs("as-it-is") == f"{place}/start hello, red, in /usr"
        assert await api.logs("with-args") == f"{place}/start you, red, in /usr"

    try:
        scenario(api_server, test, images=read_images(tmp_path / "images.yaml"))
    finally:
        Path(place).rmdir()


def test_missing_configuration_is_waited_for(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(shell("echo $KEY", envFrom=[{"secretRef": {"name": "late"}}]))
        assert await api.waits("CreateContainerConfigError") == 'secret "late" not found'
        await api.make(SECRETS, "late", stringData={"KEY": "value"})
        await api.phase("Succeeded")
        assert await api.logs() == "value"

    scenario(api_server, test)


@as_root
def test_volumes_are_seen_by_the_pod_alone(api_server: ServerProcess, tmp_path: Path) -> None:
    """An emptyDir passes on what the init container left; the machine sees only the empty mount point."""
    here = str(tmp_path / "data")
    mount = {"volumeMounts": [{"name": "c", "mountPath": f"{here}/etc"}, {"name": "e", "mountPath": f"{here}/scratch"}]}

    async def test(api: Client) -> None:
        await api.make(CONFIG_MAPS, "conf", data={"a": "from the map"})
        await api.run(
            shell(f"cat {here}/etc/a {here}/scratch/b; echo x 2>/dev/null > {here}/etc/a || echo read-only", **mount),
            initContainers=[shell(f"echo ' and the init container' > {here}/scratch/b", "init", **mount)],
            volumes=[{"name": "c", "configMap": {"name": "conf"}}, {"name": "e", "emptyDir": {}}],
        )
        await api.phase("Succeeded")
        assert await api.logs() == "from the map and the init container\nread-only"

    scenario(api_server, test)
    assert [path.name for path in sorted(Path(here).rglob("*"))] == ["etc", "scratch"]


def test_volumes_that_cannot_be_had_say_what_to_do(api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(api: Client) -> None:
        mount = {"volumeMounts": [{"name": "e", "mountPath": "/scratch"}]}
        await api.run(container("main", "true", **mount), volumes=[{"name": "e", "emptyDir": {}}])
        assert "Start the node agent as root" in await api.waits("CreateContainerConfigError")

    refused = Isolation(refusal="unshare: Operation not permitted")
    monkeypatch.setattr("phalanx.embedded.node.run.confinement.find_isolation", lambda folder: refused)
    scenario(api_server, test)


def test_gpus_are_handed_out_by_number(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        text = 'echo "[$CUDA_VISIBLE_DEVICES]"; exec sleep 1000'
        await api.run(shell(text, "a", **gpu), shell(text, "b", **gpu), shell(text, "none"))
        await api.phase("Running")
        words = [await _said_by(api, name) for name in ("a", "b", "none")]
        assert words == ["[0]", "[1]", "[]"]
        await api.run(shell("true", **gpu), name="more")
        assert (await api.phase("Failed", "more"))["status"]["reason"] == "OutOfnvidia.com/gpu"

    scenario(api_server, test, resources={"nvidia.com/gpu": "2"})


async def _said_by(api: Client, name: str) -> str:
    return await until(lambda: api.logs(container=name))


@pytest.mark.slow
def test_a_pod_past_its_deadline_is_ended(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "1000"))
        await api.phase("Running")
        await api.connection.patch(PODS, "p", {"spec": {"activeDeadlineSeconds": 1}}, api.namespace)
        pod = await api.phase("Failed")
        assert pod["status"]["reason"] == "DeadlineExceeded"
        assert ended(pod)["exitCode"] == 143

    scenario(api_server, test)


@pytest.mark.slow
def test_readiness_and_liveness(api_server: ServerProcess, tmp_path: Path) -> None:
    ready, sick = tmp_path / "ready", tmp_path / "sick"
    often = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 60}
    probes = {
        "readinessProbe": {"exec": {"command": ["test", "-e", str(ready)]}, **often},
        "livenessProbe": {"exec": {"command": ["test", "!", "-e", str(sick)]}, **often},
    }

    def is_ready(pod: dict) -> bool:
        return pod["status"]["containerStatuses"][0]["ready"]

    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "1000", **probes), restartPolicy="Always")
        assert not is_ready(await api.phase("Running"))
        ready.touch()
        await api.until(is_ready)
        sick.touch()
        await api.until(lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] >= 1)

    scenario(api_server, test)


@pytest.mark.slow
def test_two_pods_listen_on_one_port(api_server: ServerProcess) -> None:
    """Each at its own address."""
    text = "import os, socket; s = socket.create_server((os.environ['IP'], 7078)); print('up', flush=True); s.accept()"
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    probe = {"readinessProbe": {"tcpSocket": {"port": 7078}, "periodSeconds": 1, "failureThreshold": 1}}

    async def test(api: Client) -> None:
        for name in ("a", "b"):
            await api.run(container("main", sys.executable, "-c", text, env=env, **probe), name=name)
        addresses = {(await api.phase("Succeeded", name))["status"]["podIP"] for name in ("a", "b")}
        assert len(addresses) == 2

    scenario(api_server, test)


def test_a_node_that_is_deleted_comes_back(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        before = await api.connection.get(NODES, api.node)
        await api.connection.delete(NODES, api.node)

        async def is_back() -> bool:
            try:
                return (await api.connection.get(NODES, api.node))["metadata"]["uid"] != before["metadata"]["uid"]
            except ApiRefusal:
                return False

        await until(is_back)
        after = await api.connection.get(NODES, api.node)
        assert after["status"]["allocatable"] == before["status"]["allocatable"]

    scenario(api_server, test, patience=Patience())  # long before the next heartbeat


def test_a_label_put_on_the_node_counts_for_the_next_pod(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container(), name="early", nodeSelector={"zone": "a"})
        assert (await api.phase("Failed", "early"))["status"]["reason"] == "NodeAffinity"
        await api.connection.patch(NODES, api.node, {"metadata": {"labels": {"zone": "a"}}})
        await api.run(container(), name="late", nodeSelector={"zone": "a"})
        await api.phase("Succeeded", "late")

    scenario(api_server, test)


def test_a_pod_that_somebody_else_ended_is_stopped(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(shell("echo $$$$; exec sleep 1000"))
        await api.phase("Running")
        pid = await _said(api)
        status = {"phase": "Failed", "reason": "Evicted"}
        await api.connection.patch(PODS, "p", {"status": status}, api.namespace, "status")
        await until(lambda: not alive(pid))
        pod = await api.until(lambda pod: "terminated" in pod["status"]["containerStatuses"][0]["state"])
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")

    scenario(api_server, test)
