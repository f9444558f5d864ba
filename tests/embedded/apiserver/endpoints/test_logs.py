"""`pods/log`: the server asks the node's agent, shows it the token, and passes on what it says as it comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.embedded.apiserver.inprocess import InProcess

PODS = "/api/v1/namespaces/default/pods"
TOKEN = "the-kubelet-token"


@contextlib.asynccontextmanager
async def agent(seen: list[web.Request]) -> AsyncIterator[int]:
    """A node agent that answers two lines, the second when it is asked to go on; its port."""

    async def logs(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        if request.headers["Authorization"] != f"Bearer {TOKEN}":
            return web.Response(status=401, text="no")
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await response.write(b"second\n")
        return response

    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", logs)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def node(port: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    }


def test_the_log_of_a_bound_pod_comes_from_its_node(data_dir: Path) -> None:
    seen: list[web.Request] = []

    async def run() -> bytes:
        async with InProcess.started(data_dir) as server, agent(seen) as port:
            (data_dir / "kubelet.token").write_text(TOKEN + "\n")
            (data_dir / "pki").mkdir(exist_ok=True)
            await server.make("/api/v1/nodes", node(port))
            pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}
            await server.make(PODS, pod)
            response = await server.api(server.request("GET", f"{PODS}/p/log?tailLines=5&follow=true"))
            assert response.stream is not None, response.body
            text = b"".join([piece async for piece in response.stream])
            await response.stream.aclose()
            return text

    assert asyncio.run(run()) == b"first\nsecond\n"
    assert seen[0].path == "/containerLogs/default/p/c"
    assert dict(seen[0].query) == {"tailLines": "5", "follow": "true"}


def test_a_simulated_node_has_no_log_and_says_so(data_dir: Path) -> None:
    async def run() -> tuple[int, bytes]:
        async with InProcess.started(data_dir) as server:
            await server.make("/api/v1/nodes", {"metadata": {"name": "n1"}})
            pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}
            await server.make(PODS, pod)
            response = await server.api(server.request("GET", f"{PODS}/p/log"))
            return response.code, response.body

    code, body = asyncio.run(run())
    assert (code, b"it is simulated, so that nothing runs on it" in body) == (400, True)


def test_a_pod_without_a_node_has_an_empty_log(data_dir: Path) -> None:
    async def run() -> tuple[int, bytes]:
        async with InProcess.started(data_dir) as server:
            await server.make(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
            response = await server.api(server.request("GET", f"{PODS}/p/log"))
            return response.code, response.body

    assert asyncio.run(run()) == (204, b"")
