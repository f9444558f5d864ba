"""exec, attach, cp and port-forward through the API server: kubectl and the official Python client."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.kind import PODS
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until
from tests.kubectl import KUBECTL

pytestmark = pytest.mark.slow  # real processes


SERVER = (
    "import http.server, os, socketserver as s\n"
    "server = s.TCPServer((os.environ['AT'], 0), http.server.SimpleHTTPRequestHandler)\n"
    "print(server.server_address[1], flush=True); server.serve_forever()"
)


AT = [{"name": "AT", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


# As kubectl before 1.31, and Go programs by `remotecommand.NewSPDYExecutor`.
OLD = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}


async def kubectl(
    server: ServerProcess, api: Client, *words: str, given: bytes = b"", env: dict[str, str] | None = None
) -> tuple[int, str, str]:
    command = [KUBECTL, f"--kubeconfig={server.kubeconfig}", f"--namespace={api.namespace}", *words]
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    environ = {**os.environ, **(env or {})}
    process = await asyncio.create_subprocess_exec(*command, env=environ, **pipes)  # type: ignore[arg-type]  # names of pipes alone
    out, err = await asyncio.wait_for(process.communicate(given), 240)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def test_a_command_runs_in_the_container_and_its_exit_code_comes_back(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "300", env=[{"name": "COLOUR", "value": "red"}]))
        await api.phase("Running")
        script = "echo out $COLOUR; echo err >&2; exit 3"
        code, out, err = await kubectl(api_server, api, "exec", "p", "--", "sh", "-c", script)
        assert (code, out) == (3, "out red\n")
        assert err.splitlines() == ["err", "command terminated with exit code 3"]
        code, out, _ = await kubectl(api_server, api, "exec", "-i", "p", "--", "cat", given=b"x" * 300_000)
        assert (code, len(out)) == (0, 300_000)  # the end of the input ends it
        code, _, err = await kubectl(api_server, api, "exec", "p", "--", "no-such-program")
        assert code != 0

    scenario(api_server, test)


def test_older_clients_do_the_same_by_spdy(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sh", "-c", "wc -c; sleep 300", stdin=True, stdinOnce=True))
        await api.phase("Running")
        script = "echo out; echo err >&2; exit 3"
        code, out, err = await kubectl(api_server, api, "exec", "p", "--", "sh", "-c", script, env=OLD)
        assert (code, out) == (3, "out\n")
        assert err.splitlines() == ["err", "command terminated with exit code 3"]
        given = b"x" * 300_000
        code, out, _ = await kubectl(api_server, api, "exec", "-i", "p", "--", "cat", given=given, env=OLD)
        assert (code, len(out)) == (0, 300_000)
        sized = "until [ \"$(stty size)\" = '24 80' ]; do sleep 0.05; done; echo it is"
        assert await in_terminal(api_server, api, "exec", "-it", "p", "--", "sh", "-c", sized) == (0, b"it is\r\n")
        _, out, _ = await kubectl(api_server, api, "exec", "p", "--", "no-such-program", env=OLD)
        assert out == ""

    scenario(api_server, test)


async def in_terminal(server: ServerProcess, api: Client, *words: str) -> tuple[int, bytes]:
    """An older kubectl in a terminal of 24 lines."""
    ours, its = pty.openpty()
    try:
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command = [KUBECTL, f"--kubeconfig={server.kubeconfig}", f"--namespace={api.namespace}", *words]
        env = {**os.environ, **OLD}
        process = await asyncio.create_subprocess_exec(*command, env=env, stdin=its, stdout=its, stderr=its)
        code = await asyncio.wait_for(process.wait(), 240)
        return code, os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(its)


def test_files_are_copied_both_ways(api_server: ServerProcess, tmp_path: Path) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "300"))
        await api.phase("Running")
        blob, there, back = tmp_path / "blob", tmp_path / "there", tmp_path / "back"
        blob.write_bytes(os.urandom(2_000_000))
        assert (await kubectl(api_server, api, "cp", str(blob), f"p:{there}"))[0] == 0
        assert (await kubectl(api_server, api, "cp", f"p:{there}", str(back)))[0] == 0
        assert blob.read_bytes() == there.read_bytes() == back.read_bytes()

    scenario(api_server, test)


def test_attach_shows_what_the_container_writes_and_ends_with_it(api_server: ServerProcess, tmp_path: Path) -> None:
    async def test(api: Client) -> None:
        go = tmp_path / "go"
        script = f"echo before; until [ -e {go} ]; do sleep 0.05; echo again; done; echo after"
        await api.run(container("main", "sh", "-c", script))
        await api.phase("Running")
        words = [KUBECTL, f"--kubeconfig={api_server.kubeconfig}", f"--namespace={api.namespace}", "attach", "p"]
        attached = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        assert attached.stdout is not None
        first = await asyncio.wait_for(attached.stdout.readline(), 240)
        go.touch()
        rest = await asyncio.wait_for(attached.stdout.read(), 240)
        assert (first, rest.splitlines()[-1]) == (b"again\n", b"after")
        assert await attached.wait() == 0
        code, _, _ = await kubectl(api_server, api, "attach", "-i", "p")
        assert code != 0

    scenario(api_server, test)


def test_what_is_typed_reaches_a_container_with_input(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sh", "-c", "wc -c", stdin=True, stdinOnce=True))
        await api.phase("Running")
        code, out, _ = await kubectl(api_server, api, "attach", "-i", "p", given=b"x" * 300_000)
        assert (code, out) == (0, "300000\n")  # the end of the input ends it
        assert (await api.phase("Succeeded"))["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0

    scenario(api_server, test)


def late(pod: Any, name: str) -> Any:
    """The state of an ephemeral container."""
    return {one["name"]: one["state"] for one in pod["status"].get("ephemeralContainerStatuses") or ()}.get(name) or {}


def test_debug_adds_a_container_to_a_pod_that_runs(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", "sleep", "300"))
        await api.phase("Running")
        typed = b"echo $((40 + 2)); test -t 0 || exit 5\n"
        code, out, err = await kubectl(
            api_server, api, "debug", "p", "-i", "--image=host", "-cd", "--", "sh", given=typed
        )
        assert (code, "42\n" in out) == (0, True), err
        pod = await api.until(lambda pod: "terminated" in late(pod, "d"))
        assert (late(pod, "d")["terminated"]["exitCode"], pod["status"]["phase"]) == (5, "Running")
        assert await api.logs(container="d") == "42"
        await kubectl(api_server, api, "debug", "p", "--image=host", "-cstays", "--", "sleep", "300")
        await api.until(lambda pod: "running" in late(pod, "stays"))
        assert (await kubectl(api_server, api, "exec", "p", "-cstays", "--", "echo", "in"))[1] == "in\n"
        await api.delete(gracePeriodSeconds=0)
        await api.until(lambda pod: pod is None)

    scenario(api_server, test)


async def _port(api: Client) -> str:
    async def look() -> str:
        return (await api.logs()).strip()

    await api.until(lambda pod: pod["status"]["phase"] == "Running")  # kubectl forwards ports of such pods alone
    return str(await until(look))


@pytest.mark.parametrize("env", [{}, OLD], ids=["WebSocket", "SPDY"])
def test_a_port_is_forwarded_by_kubectl(api_server: ServerProcess, env: dict[str, str]) -> None:
    async def test(api: Client) -> None:
        await api.run(container("main", sys.executable, "-c", SERVER, env=AT))
        port = await _port(api)
        command = [KUBECTL, f"--kubeconfig={api_server.kubeconfig}", f"--namespace={api.namespace}"]
        forward = await asyncio.create_subprocess_exec(
            *command, "port-forward", "pod/p", f":{port}", stdout=asyncio.subprocess.PIPE, env={**os.environ, **env}
        )
        try:
            assert forward.stdout is not None
            line = (await asyncio.wait_for(forward.stdout.readline(), 240)).decode()
            local = int(re.findall(r":(\d+) ->", line)[0])
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", local)
                writer.write(b"GET /etc HTTP/1.0\r\n\r\n")
                assert (await asyncio.wait_for(reader.read(), 240)).startswith(b"HTTP/1.0 ")
                writer.close()
        finally:
            forward.terminate()
            await forward.wait()

    scenario(api_server, test)


def test_the_official_python_client_does_the_same(api_server: ServerProcess) -> None:
    from kubernetes import client as official  # at the top: 3 % of the time to collect all tests
    from kubernetes import config, stream

    def ask(namespace: str, port: str) -> tuple[str, int, bytes]:
        core = official.CoreV1Api(config.new_client_from_config(str(api_server.kubeconfig)))
        how: dict[str, Any] = {"stdin": False, "stdout": True, "stderr": True, "tty": False}
        run = core.connect_get_namespaced_pod_exec
        said = stream.stream(run, "p", namespace, command=["echo", "hello"], **how)
        ended = stream.stream(run, "p", namespace, command=["sh", "-c", "exit 4"], _preload_content=False, **how)
        ended.run_forever(timeout=240)
        forward = core.connect_get_namespaced_pod_portforward
        line = stream.portforward(forward, "p", namespace, ports=port).socket(int(port))
        line.setblocking(True)
        line.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while piece := line.recv(65536):
            answer += piece
        return said, ended.returncode, answer

    async def test(api: Client) -> None:
        await api.run(container("main", sys.executable, "-c", SERVER, env=AT))
        port = await _port(api)
        said, code, answer = await asyncio.to_thread(ask, api.namespace, port)
        assert (said, code) == ("hello\n", 4)
        assert answer.startswith(b"HTTP/1.0 200 OK")

    scenario(api_server, test)


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("none/exec?stdout=true", 404, 'pods "none" not found'),
        ("p/exec?command=true", 400, "pod p does not have a host assigned"),
        ("p/exec?command=true&stdout=true&container=z", 400, "container z is not valid for pod p"),
        ("p/exec?command=true&stdout=true", 400, "pod p does not have a host assigned"),
    ],
)
def test_what_cannot_be_streamed_is_refused(api_server: ServerProcess, path: str, code: int, message: str) -> None:
    pods = PODS.path("default")
    api_server.ask("POST", pods, {"metadata": {"name": "p"}, "spec": {"containers": [container("main")]}})
    answer = api_server.ask("GET", f"{pods}/{path}")
    assert (answer.code, answer.body["message"]) == (code, message)


def test_it_takes_the_right_to_create_a_stream(api_server: ServerProcess) -> None:
    answer = api_server.ask("GET", f"{PODS.path('default')}/p/exec?stdout=true", token="")
    assert answer.code == 403
