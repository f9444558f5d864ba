"""A machine that several share, as two of its users try it: real processes under numeric uids. Needs root."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.connection import STRATEGIC_PATCH
from phalanx.client.kind import CONFIG_MAPS, NAMESPACES, PODS, SECRETS
from phalanx.embedded.node.container.cgroup import Cgroups
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until

ADA, BOB, GROUP = 51234, 51235, 51236

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="pods of other users can be started by root alone")


async def owned(api: Client, uid: int = ADA, gid: int = GROUP) -> None:
    notes = {"phalanx.dev/uid": str(uid), "phalanx.dev/gid": str(gid)}
    await api.connection.patch(NAMESPACES, api.namespace, {"metadata": {"annotations": notes}})


async def said(api: Client, script: str, **spec: Any) -> str:
    """What a shell of the namespace's owner writes."""
    await api.run(container("main", "sh", "-c", script, **spec.pop("box", {})), **spec)
    pod = await api.until(lambda pod: pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed"))
    text = await api.logs()
    assert pod["status"]["phase"] == "Succeeded", (text, pod["status"])
    await api.delete(gracePeriodSeconds=0)
    return text


def leftovers(folder: Path, uid: str) -> list[Path]:
    """What is left of a pod besides its logs and records."""
    scratch = [path for path in (Path("/tmp/scratch"), folder / ".volumes") if path.exists()]
    return [*scratch, *Path("/dev/shm").glob(f"phalanx-{uid}*")]


@pytest.mark.slow
def test_a_pod_runs_as_the_owner_of_its_namespace_and_sees_itself_alone(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await owned(api)
        text = await said(api, "id -u; id -g; id -G; ls /proc | grep -c '^[0-9]'; grep NoNewPrivs /proc/self/status")
        user, group, groups, processes, privileges = text.splitlines()
        assert (user, group, groups, privileges.split()[1]) == (str(ADA), str(GROUP), str(GROUP), "1")
        assert int(processes) <= 4  # ours, its shell, ls, grep
        capabilities = await said(api, "grep CapEff /proc/self/status; ulimit -c; echo $HOME")
        assert capabilities.split()[1] == "0" * 16
        assert capabilities.splitlines()[-1] == "/"

    scenario(api_server, test, shared=True)


@pytest.mark.slow
def test_a_namespace_without_an_owner_runs_as_nobody_and_an_admin_may_allow_root(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        assert await said(api, "id -u") == "65534"
        await owned(api, 0, 0)
        assert await said(api, "id -u") == "0"

    scenario(api_server, test, shared=True)


@pytest.mark.slow
def test_who_asks_for_another_user_is_refused(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await owned(api)
        await api.run(container("main", "id"), securityContext={"runAsUser": 0})
        assert f"its pods run as user {ADA}" in await api.waits("CreateContainerConfigError")

    scenario(api_server, test, shared=True)


@pytest.mark.slow
def test_files_that_its_user_may_not_reach_are_not_mounted(api_server: ServerProcess, tmp_path: Path) -> None:
    """Neither by hostPath, nor by a link below a volume, nor is anything made on the machine in root's name."""
    secret = tmp_path / "private" / "open"  # readable itself, below a directory that is root's alone
    secret.mkdir(parents=True)
    (secret / "data").write_text("hers")
    secret.parent.chmod(0o700)

    async def test(api: Client) -> None:
        await owned(api)
        host = [{"name": "v", "hostPath": {"path": str(secret)}}]
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/mnt"}]}
        await api.run(container("main", "cat", "/mnt/data", **mount), volumes=host)
        assert "Permission denied" in (await api.phase("Failed"))["status"]["message"]
        await api.run(container("main", "true", **mount), name="make", volumes=[
            {"name": "v", "hostPath": {"path": str(tmp_path / "new"), "type": "DirectoryOrCreate"}}
        ])  # fmt: skip
        assert "refused on a shared machine" in await api.waits("ContainerCreating", "make")
        link = container(
            "link", "ln", "-s", str(secret), "/tmp/v/there", volumeMounts=[{"name": "e", "mountPath": "/tmp/v"}]
        )
        sub = {"volumeMounts": [{"name": "e", "mountPath": "/mnt", "subPath": "there"}]}
        await api.run(container("main", "cat", "/mnt/data", **sub), name="sub", initContainers=[link],
                      volumes=[{"name": "e", "emptyDir": {}}])  # fmt: skip
        assert "a link leads out of the volume" in (await api.phase("Failed", "sub"))["status"]["message"]
        point = {"volumeMounts": [{"name": "e", "mountPath": "/etc/made-by-a-pod"}]}
        await api.run(container("main", "true", **point), name="point", volumes=[{"name": "e", "emptyDir": {}}])
        assert "/etc/made-by-a-pod: Permission denied" in (await api.phase("Failed", "point"))["status"]["message"]

    scenario(api_server, test, shared=True)
    assert not (tmp_path / "new").exists()
    assert not Path("/etc/made-by-a-pod").exists()


@pytest.mark.slow
def test_its_own_secrets_and_scratch_are_its_users_and_gone_with_it(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await owned(api)
        await api.make(SECRETS, "s", stringData={"key": "word"})
        await api.make(CONFIG_MAPS, "c", data={"a": "b"})
        volumes = [
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "e", "emptyDir": {}},
            {"name": "m", "emptyDir": {"medium": "Memory"}},
        ]
        box = {"volumeMounts": [{"name": one["name"], "mountPath": f"/tmp/{one['name']}"} for one in volumes]}
        script = (
            "cat /tmp/s/key; echo; cat /tmp/c/a; echo; touch /tmp/e/x /tmp/m/x /tmp/scratch /dev/shm/x && ls /dev/shm"
        )
        await api.run(container("main", "sh", "-c", script, **box), volumes=volumes)
        pod = await api.phase("Succeeded")
        assert await api.logs() == "word\nb\nx"
        uid = pod["metadata"]["uid"]
        await until(lambda: not leftovers(api_server.data / "pods" / uid, uid))

    scenario(api_server, test, shared=True)


@pytest.mark.slow
def test_probes_and_hooks_run_as_the_user_too(api_server: ServerProcess, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    async def test(api: Client) -> None:
        await owned(api)
        check = {"exec": {"command": ["sh", "-c", "id -u; grep NoNewPrivs /proc/self/status; exit 1"]}}
        probe = {**check, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 60}
        await api.run(container("main", "sleep", "1000", livenessProbe=probe), terminationGracePeriodSeconds=1)
        message = (await api.phase("Failed"))["status"]["message"]
        assert f"{ADA}\nNoNewPrivs:\t1" in message, message
        assert "killed by SIGTERM (exit code 143)" in message

    scenario(api_server, test, shared=True)


@pytest.mark.slow
def test_the_environment_of_a_pod_is_its_programs_alone(api_server: ServerProcess, tmp_path: Path) -> None:
    """The program that enters a container for a probe has root's rights until it is inside. So variables of the dynamic
    linker, with which a user could make root load a library, must not reach it. With LD_DEBUG_OUTPUT, ld.so(8) writes a
    file for every program that it starts."""
    traces = tmp_path / "root-alone"
    traces.mkdir(mode=0o700)

    async def test(api: Client) -> None:
        await owned(api)
        env = [{"name": "LD_DEBUG", "value": "files"}, {"name": "LD_DEBUG_OUTPUT", "value": str(traces / "trace")}]
        probe = {"exec": {"command": ["sh", "-c", "echo $LD_DEBUG; exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}
        box = container("main", "sleep", "1000", livenessProbe=probe, env=env)
        await api.run(box, terminationGracePeriodSeconds=1)
        assert "files" in (await api.phase("Failed"))["status"]["message"]

    scenario(api_server, test, shared=True)
    assert list(traces.iterdir()) == []


@pytest.mark.slow
def test_a_kill_and_an_exit_code_are_told_as_without_confinement(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await owned(api)
        await api.run(container("main", "sh", "-c", "sleep 1000 & kill -9 $$$$"))
        end = (await api.phase("Failed"))["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (end["exitCode"], end["signal"]) == (137, signal.SIGKILL)
        await api.run(container("main", "sh", "-c", "exit 3"), name="three")
        end = (await api.phase("Failed", "three"))["status"]["containerStatuses"][0]["state"]["terminated"]
        assert end["exitCode"] == 3
        await api.run(container("main", "/nowhere/at/all"), name="none")
        end = (await api.phase("Failed", "none"))["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (end["exitCode"], end["reason"]) == (128, "StartError")

    scenario(api_server, test, shared=True)


@pytest.mark.slow
def test_who_states_no_memory_limit_gets_the_machines_default(api_server: ServerProcess) -> None:
    hog = "x = bytearray(); [x.extend(bytes(1 << 20)) for _ in range(200)]"

    async def test(api: Client) -> None:
        await owned(api)
        await api.run(container("main", "python3", "-c", hog))
        message = (await api.phase("Failed"))["status"]["message"]
        assert "its limit is 64Mi, this machine's default, because it sets none" in message, message
        await api.run(container("main", "python3", "-c", hog, resources={"requests": {"memory": "512Mi"}}), name="asks")
        await api.phase("Succeeded", "asks")

    if "memory" not in Cgroups.of_this_process("phalanx-test").enforced:
        pytest.skip("limits of memory are not enforced on this machine")
    scenario(api_server, test, shared=True, resources={"memory": "1Gi", "cpu": "16"})


@pytest.mark.slow
def test_the_default_is_the_memory_for_each_cpu_and_can_be_said(api_server: ServerProcess) -> None:
    async def limit(api: Client) -> str:
        await owned(api)
        file = "/sys/fs/cgroup/memory$(grep :memory: /proc/self/cgroup | cut -d: -f3)/memory.limit_in_bytes"
        return (await said(api, f"cat {file}")).strip()

    if not Path("/sys/fs/cgroup/memory").is_dir():
        pytest.skip("the limit is read where version 1 of cgroups has it")

    async def test(api: Client) -> None:
        assert await limit(api) == str(3 << 20)

    scenario(api_server, test, shared=True, default_memory_bytes=3 << 20)


@pytest.mark.slow
def test_a_debug_container_sees_the_processes_of_its_target_and_has_what_its_pod_may_have(
    api_server: ServerProcess,
) -> None:
    enforced = "memory" in Cgroups.of_this_process("phalanx-test").enforced
    measured = enforced and Path("/sys/fs/cgroup/memory").is_dir()  # where version 1 of cgroups has it

    async def test(api: Client) -> None:
        await owned(api)
        most = {"resources": {"limits": {"memory": "64Mi"}}}
        await api.run(container("main", "sleep", "4321", **most), container("other", "sleep", "1234", **most))
        await api.phase("Running")
        group = "/sys/fs/cgroup/memory$(grep :memory: /proc/self/cgroup | cut -d: -f3)/../memory.limit_in_bytes"
        alone = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"
        script = f"id -u; grep NoNewPrivs /proc/self/status; {alone}; echo; cat {group}"
        late = [
            container("beside", "sh", "-c", script, targetContainerName="main"),
            container("alone", "sh", "-c", alone),
            container("root", "id", securityContext={"runAsUser": 0}),
        ]
        body = {"spec": {"ephemeralContainers": late}}
        await api.connection.patch(PODS, "p", body, api.namespace, "ephemeralcontainers", STRATEGIC_PATCH)

        def state(pod: Any, name: str) -> Any:
            found = pod["status"].get("ephemeralContainerStatuses") or ()
            return next((one["state"] for one in found if one["name"] == name), {})

        await api.until(lambda pod: all("terminated" in state(pod, name) for name in ("beside", "alone")))
        said = (await api.logs(container="beside")).splitlines()
        assert (said[0], said[1].split()[1]) == (str(ADA), "1")
        assert "sleep 4321" in said[2]
        assert "sleep 1234" not in said[2]
        if measured:
            assert said[3] == str(128 << 20)
        assert "sleep" not in await api.logs(container="alone")
        pod = await api.until(
            lambda pod: "waiting" in state(pod, "root") and state(pod, "root")["waiting"].get("message")
        )
        assert f"its pods run as user {ADA}" in state(pod, "root")["waiting"]["message"]

    scenario(api_server, test, shared=True)
