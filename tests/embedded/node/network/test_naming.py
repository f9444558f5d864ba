"""Pods that find each other by name, as they do on a cluster: through a real API server, with real lookups."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import pytest

from phalanx.client.kind import SERVICES
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="tested as root; who is not needs user namespaces")
MEMBER = {"meta": {"labels": {"app": "a"}}}
LISTEN = """
import socket, os
listener = socket.create_server((os.environ["POD_IP"], 7000))
while True:
    friend, _ = listener.accept()
    friend.sendall(socket.gethostname().encode())
    friend.close()
"""
ASK = """
import socket, sys, time
name, port = sys.argv[1], int(sys.argv[2])
while True:
    try:
        print(socket.create_connection((name, port), 5).recv(99).decode() or 1 / 0, flush=True)
        break
    except (OSError, ZeroDivisionError):
        time.sleep(0.05)
"""
# Waits until the name is there, then until it is not.
LOOKS = """
import socket, time
while True:
    try:
        print("found", socket.gethostbyname("gang"))
        break
    except OSError:
        time.sleep(0.05)
while True:
    socket.gethostbyname("gang")
    time.sleep(0.05)
"""
POD_IP = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]


def listener() -> dict[str, Any]:
    return container("main", sys.executable, "-c", LISTEN, env=POD_IP)


def asker(name: str, port: int = 7000) -> dict[str, Any]:
    return container("main", sys.executable, "-c", ASK, name, str(port))


async def serve(api: Client, name: str, **spec: Any) -> None:
    await api.make(SERVICES, name, spec={"selector": {"app": "a"}, **spec})


@pytest.mark.slow
def test_two_pods_on_one_port_are_told_apart_by_name(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        for rank in ("rank-0", "rank-1"):
            await api.run(listener(), name=rank, hostname=rank, subdomain="gang", **MEMBER)
        await api.run(asker("rank-1.gang"), name="short")
        await api.run(asker(f"rank-0.gang.{api.namespace}.svc.cluster.local"), name="long")
        await serve(api, "gang", clusterIP="None", ports=[{"port": 7000}])  # known to pods that run already
        await api.phase("Succeeded", "short")
        await api.phase("Succeeded", "long")
        assert (await api.logs("short"), await api.logs("long")) == ("rank-1", "rank-0")

    scenario(api_server, test)


@pytest.mark.slow
def test_a_name_goes_with_its_pod(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await serve(api, "gang", clusterIP="None")
        await api.run(listener(), name="rank", **MEMBER)
        await api.phase("Running", "rank")
        await api.run(container("main", sys.executable, "-uc", LOOKS), name="looks")

        async def found() -> bool:
            return "found" in await api.logs("looks")

        await api.phase("Running", "looks")
        await until(found)
        await api.delete("rank", gracePeriodSeconds=0)
        await api.phase("Failed", "looks")
        assert "gaierror" in await api.logs("looks")

    scenario(api_server, test)


@pytest.mark.slow
def test_a_service_with_an_address_passes_on_to_its_target_port(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        await serve(api, "web", ports=[{"port": 80, "targetPort": 7000}])
        await api.run(listener(), name="behind", **MEMBER)
        await api.run(asker("web", 80), name="asks")
        await api.phase("Succeeded", "asks")
        assert await api.logs("asks") == "behind"

    scenario(api_server, test)


@pytest.mark.slow
def test_pods_reach_the_api_by_its_usual_name(api_server: ServerProcess) -> None:
    look = """
import os, ssl, urllib.request
trust = ssl._create_unverified_context()
print(urllib.request.urlopen("https://kubernetes.default.svc/healthz", context=trust).read().decode())
"""

    async def test(api: Client) -> None:
        await api.run(container("main", sys.executable, "-c", look))
        await api.phase("Succeeded")
        assert await api.logs() == "ok"

    scenario(api_server, test)


@pytest.mark.slow
def test_the_host_name_is_the_pods_and_no_one_elses(api_server: ServerProcess) -> None:
    look = "import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))"

    async def test(api: Client) -> None:
        await api.run(container("main", sys.executable, "-c", look), name="worker")
        pod = await api.phase("Succeeded", "worker")
        assert await api.logs("worker") == f"worker {pod['status']['podIP']}"
        await api.run(container("main", sys.executable, "-c", look), name="guest", hostNetwork=True)
        await api.phase("Succeeded", "guest")
        assert (await api.logs("guest")).split()[0] == socket.gethostname() != "worker"

    scenario(api_server, test)
