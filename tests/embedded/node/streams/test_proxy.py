"""`/proxy/` of pods, services and nodes, by kubectl and by a client of HTTP and WebSockets."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from phalanx.client.kind import ENDPOINT_SLICES, SERVICES
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until
from tests.kubectl import KUBECTL

pytestmark = pytest.mark.slow  # real processes

ECHO = Path(__file__).with_name("echo.py")
AT = {"name": "AT", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


PORT, CLOSED = 7071, 7072  # at the pod's own address


class Proxied:
    """What is asked through the API server."""

    def __init__(self, server: ServerProcess, session: aiohttp.ClientSession) -> None:
        self._server, self._session = server, session

    async def ask(self, path: str, method: str = "GET", **more: Any) -> tuple[int, Any, Any]:
        """Status, headers, and the body read as JSON where it is some."""
        kwargs: dict[str, Any] = {"allow_redirects": False, "headers": {"Cookie": "a=b"}, **more}
        async with self._session.request(method, self.url(path), **kwargs) as answer:
            text = await answer.text()
            return answer.status, answer.headers, json.loads(text) if text.startswith("{") else text

    def url(self, path: str) -> Any:
        from yarl import URL

        return URL(self._server.url + path, encoded=True)

    @classmethod
    @asynccontextmanager
    async def open(cls, server: ServerProcess) -> AsyncIterator[Proxied]:
        trust = ssl.create_default_context(cafile=str(server.data / "pki" / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=trust)
        headers = {"Authorization": f"Bearer {server.token}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            yield cls(server, session)


def test_requests_reach_pods_services_and_the_node(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        env = [AT, {"name": "PORT", "value": str(PORT)}]
        echo = container("main", sys.executable, str(ECHO), env=env, ports=[{"containerPort": PORT, "name": "web"}])
        await api.run(echo, meta={"labels": {"app": "echo"}})
        pod = await api.phase("Running")
        space = f"/api/v1/namespaces/{api.namespace}"
        async with Proxied.open(api_server) as through:

            async def up() -> bool:
                return (await through.ask(f"{space}/pods/p/proxy/"))[0] == 200

            await until(up)
            await by_http(through, space, PORT)
            await by_websocket(through, f"{space}/pods/p:{PORT}/proxy/ws?q=1")
            await by_service(api, through, space, pod, PORT)
            status, _, said = await through.ask(f"/api/v1/nodes/{api.node}/proxy/stats/summary")
            assert (status, said["node"]["nodeName"]) == (200, api.node)
            assert (await through.ask(f"/api/v1/nodes/{api.node}/proxy/stats/summary", "POST"))[0] == 405
        await by_kubectl(api_server, api, PORT)

    scenario(api_server, test)


async def by_http(through: Proxied, space: str, port: int) -> None:
    at = f"{space}/pods/p:{port}/proxy"
    status, _, said = await through.ask(f"{at}/a%20b%2Fc?x=%31", "PUT", data="hello")
    assert (status, said["method"], said["path"], said["body"]) == (200, "PUT", "/a%20b%2Fc?x=%31", "hello")
    assert said["headers"]["cookie"] == "a=b"
    assert said["headers"]["x-forwarded-uri"] == at
    assert "authorization" not in said["headers"]  # the pod must not get the user's token
    assert (await through.ask(f"{at}/teapot"))[0] == 418
    assert (await through.ask(f"{at}/nothing"))[0] == 204
    status, headers, _ = await through.ask(f"{at}/moved")
    assert (status, headers["Location"]) == (302, f"{at}/there?x=1")
    status, headers, _ = await through.ask(at)
    assert (status, headers["Location"]) == (301, f"{at}/")
    assert (await through.ask(f"{space}/pods/p:{CLOSED}/proxy/"))[0] == 503
    assert (await through.ask(f"{space}/pods/nobody/proxy/"))[0] == 404
    assert (await through.ask(f"{space}/pods/p:web/proxy/"))[0] == 400


async def by_websocket(through: Proxied, path: str) -> None:
    async with through._session.ws_connect(through.url(path), protocols=("chat",)) as channel:
        assert channel.protocol == "chat"
        await channel.send_str("hi")
        assert await channel.receive_str(timeout=240) == "q=1: hi"


async def by_service(api: Client, through: Proxied, space: str, pod: Any, port: int) -> None:
    spec = {"selector": {"app": "echo"}, "ports": [{"name": "http", "port": 80, "targetPort": port}]}
    await api.make(SERVICES, "s", spec=spec)
    assert (await through.ask(f"{space}/services/s/proxy/"))[0] == 404  # no EndpointSlice of the Service exists
    meta = {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}}
    ports = [{"name": "http", "port": port}]
    true = {"addresses": [pod["status"]["podIP"]], "targetRef": {"kind": "Pod", "name": "p"}}
    forged = {"addresses": ["127.0.0.1"], "targetRef": {"kind": "Pod", "name": "p"}}
    await api.make(ENDPOINT_SLICES, "s-1", metadata=meta, addressType="IPv4", ports=ports, endpoints=[forged])
    assert (await through.ask(f"{space}/services/s/proxy/"))[0] == 503  # the pod is not there
    meta["name"] = "s-2"
    await api.make(ENDPOINT_SLICES, "s-2", metadata=meta, addressType="IPv4", ports=ports, endpoints=[true])
    for name in ("s", "s:80", "s:http", "http:s:http"):
        status, _, said = await through.ask(f"{space}/services/{name}/proxy/x")
        assert (status, said["path"]) == (200, "/x"), name
    status, _, said = await through.ask(f"{space}/services/s:81/proxy/")
    assert (status, said["message"]) == (503, 'no service port 81 found for service "s"')


async def by_kubectl(server: ServerProcess, api: Client, port: int) -> None:
    command = [KUBECTL, f"--kubeconfig={server.kubeconfig}", "get", "--raw"]
    path = f"/api/v1/namespaces/{api.namespace}/pods/p:{port}/proxy/raw"
    process = await asyncio.create_subprocess_exec(*command, path, stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(process.communicate(), 240)
    assert json.loads(out)["path"] == "/raw"
    proxy = await asyncio.create_subprocess_exec(*command[:2], "proxy", "--port=0", stdout=asyncio.subprocess.PIPE)
    try:
        assert proxy.stdout is not None
        where = (await asyncio.wait_for(proxy.stdout.readline(), 240)).decode().split()[-1]
        async with aiohttp.ClientSession() as session, session.get(f"http://{where}{path}?y=2") as answer:
            assert (await answer.json(content_type=None))["path"] == "/raw?y=2"
    finally:
        proxy.terminate()
        await proxy.wait()
