"""`embedded/node/machine/devices/plugins.py`: the messages between the kubelet and device plugins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.node.machine.devices.plugins import SOCKET, message, serve_plugins, service
from phalanx.embedded.node.machine.devices.pool import DevicePool
from phalanx.rpc.library import grpc
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.devices.test_devices import RESOURCE, asking, offers
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.waiting import until


class Plugin:
    """As a vendor's: it knows its devices, and what a container with some is given."""

    def __init__(self, folder: Path, *, pre_start: bool = False) -> None:
        self.folder, self.pre_start = folder, pre_start
        self.devices = {"one": "Healthy", "two": "Healthy", "three": "Unhealthy"}
        self.changed = asyncio.Event()
        self.calls: list[tuple[str, list[str]]] = []
        self.answer: dict[str, Any] = {"mounts": [], "devices": [], "cdi_devices": []}

    async def watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        while True:
            self.changed.clear()
            devices = [message("Device")(ID=name, health=health) for name, health in self.devices.items()]
            yield message("ListAndWatchResponse")(devices=devices)
            await self.changed.wait()

    async def allocate(self, request: Any, context: Any) -> Any:
        answer = message("AllocateResponse")()
        for one in request.container_requests:
            ids = list(one.devices_ids)
            self.calls.append(("Allocate", ids))
            said = answer.container_responses.add()
            said.envs.add(key="BOARDS", value=",".join(ids))
            for field, values in self.answer.items():
                for value in values:
                    getattr(said, field).add(**value)
        return answer

    async def pre(self, request: Any, context: Any) -> Any:
        self.calls.append(("PreStartContainer", list(request.devicesIDs)))
        return message("PreStartContainerResponse")()

    @asynccontextmanager
    async def serving(self, name: str = "acme.sock") -> AsyncIterator[None]:
        self.folder.mkdir(mode=0o700, exist_ok=True)  # the node creates it too, whichever is first
        server = grpc.aio.server()
        handlers = {
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self.watch, message("Empty").FromString, message("ListAndWatchResponse").SerializeToString
            ),
            "Allocate": grpc.unary_unary_rpc_method_handler(
                self.allocate, message("AllocateRequest").FromString, message("AllocateResponse").SerializeToString
            ),
            "PreStartContainer": grpc.unary_unary_rpc_method_handler(
                self.pre,
                message("PreStartContainerRequest").FromString,
                message("PreStartContainerResponse").SerializeToString,
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),))
        server.add_insecure_port(f"unix:{self.folder / name}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)

    async def register(self, **said: Any) -> None:
        options = message("DevicePluginOptions")(pre_start_required=self.pre_start)
        asked = {"version": "v1beta1", "endpoint": "acme.sock", "resource_name": RESOURCE, "options": options, **said}
        async with grpc.aio.insecure_channel(f"unix:{self.folder / SOCKET}") as channel:
            call = channel.unary_unary(
                service("Registration", "Register"),
                request_serializer=message("RegisterRequest").SerializeToString,
                response_deserializer=message("Empty").FromString,
            )
            await call(message("RegisterRequest")(**asked), wait_for_ready=True, timeout=120)

    async def change(self, **devices: str) -> None:
        self.devices = devices
        self.changed.set()


@pytest.mark.slow
def test_a_plugin_registers_and_its_devices_are_pods(api_server: ServerProcess, tmp_path: Path) -> None:
    async def test(api: Client) -> None:
        plugin = Plugin(tmp_path / "plugins", pre_start=True)
        (tmp_path / "config").write_text("of the board\n")
        plugin.answer["mounts"] = [
            {"container_path": str(tmp_path / "seen"), "host_path": str(tmp_path / "config"), "read_only": True}
        ]
        async with plugin.serving():
            await plugin.register()
            await offers(api, "2")
            await api.run(asking(1, "sh", "-c", f"echo $BOARDS; cat {tmp_path}/seen; sleep 1000"), name="a")
            await api.run(asking(1, "sh", "-c", "echo $BOARDS"), name="b")
            await api.phase("Succeeded", "b")
            await api.phase("Running", "a")
            assert await api.logs("b") == "two"

            async def both() -> bool:
                return await api.logs("a") == "one\nof the board"

            await until(both)
            for name in ("one", "two"):  # the two pods start at the same time
                of_it = [call for call, devices in plugin.calls if devices == [name]]
                assert of_it == ["Allocate", "PreStartContainer"]
            await api.run(asking(2, "true"), name="c")
            pod = await api.phase("Failed", "c")
            assert pod["status"]["reason"] == f"OutOf{RESOURCE}"
            await plugin.change(one="Unhealthy", two="Healthy")
            await offers(api, "1")
        await offers(api, "0")  # with the plugin its devices have gone
        async with plugin.serving():
            await plugin.register()
            await offers(api, "1")
            await api.delete("a", gracePeriodSeconds=0)

    scenario(api_server, test, device_plugins=tmp_path / "plugins")


@pytest.mark.slow
def test_device_files_are_seen_where_the_plugin_says(api_server: ServerProcess, tmp_path: Path) -> None:
    async def test(api: Client) -> None:
        plugin = Plugin(tmp_path / "plugins")
        plugin.answer["devices"] = [{"container_path": str(tmp_path / "board"), "host_path": "/dev/full"}]
        async with plugin.serving():
            await plugin.register()
            await offers(api, "2")
            await api.run(asking(1, "sh", "-c", f"head -c 3 {tmp_path}/board | od -An -c; ! echo x > {tmp_path}/board"))
            await api.phase("Succeeded")
            assert (await api.logs()).splitlines()[0].split() == ["\\0", "\\0", "\\0"]
            plugin.answer["cdi_devices"] = [{"name": "acme/board=1"}]
            await api.run(asking(1, "true"), name="cdi")
            assert "names CDI devices (acme/board=1)" in await api.waits("CreateContainerConfigError", "cdi")

    scenario(api_server, test, device_plugins=tmp_path / "plugins")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"version": "v1alpha1"}, "version 'v1alpha1' is not supported"),
        ({"endpoint": "../acme.sock"}, "is not a socket name"),
        ({"endpoint": SOCKET}, "is not a socket name"),
        ({"resource_name": "cpu"}, "is not the name of an extended resource"),
        ({"resource_name": "kubernetes.io/x"}, "is not the name of an extended resource"),
        ({"resource_name": "own.example.org/x"}, "is offered by the node itself"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(tmp_path: Path, said: dict[str, str], why: str) -> None:
    async def changed() -> None:
        raise AssertionError

    async def run() -> str:
        pool = DevicePool({"cpu": "1", "own.example.org/x": "1"}, changed)
        task = asyncio.create_task(serve_plugins(tmp_path / "plugins", pool))
        try:
            await until((tmp_path / "plugins" / SOCKET).exists)
            await Plugin(tmp_path / "plugins").register(**said)
        except grpc.aio.AioRpcError as error:
            return str(error.details())
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return ""

    assert why in asyncio.run(run())
    assert not (tmp_path / "plugins" / SOCKET).exists()
