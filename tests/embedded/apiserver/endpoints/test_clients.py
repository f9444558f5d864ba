"""Client libraries of Python against the server, as their users call them: objects made, changed, listed, watched."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.process import ServerProcess
from tests.kubectl import KUBECTL

pytestmark = pytest.mark.slow
OPERATOR = """
import kopf

@kopf.on.create("configmaps", labels={"operated": "yes"})
def made(patch, **_):
    patch.setdefault("data", {})["seen"] = "by kopf"
"""


def test_lightkube(api_server: ServerProcess) -> None:
    from lightkube import Client, KubeConfig
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap
    from lightkube.types import PatchType

    client = Client(config=KubeConfig.from_file(api_server.kubeconfig))
    meta = ObjectMeta(name="by-lightkube", namespace="default")
    client.create(ConfigMap(metadata=meta, data={"a": "1"}))
    client.patch(ConfigMap, meta.name, {"data": {"b": "2"}}, patch_type=PatchType.MERGE)
    client.apply(ConfigMap(metadata=meta, data={"c": "3"}), field_manager="test")
    assert client.get(ConfigMap, meta.name).data == {"a": "1", "b": "2", "c": "3"}
    assert meta.name in [one.metadata.name for one in client.list(ConfigMap)]
    event, _ = next(iter(client.watch(ConfigMap, resource_version="0")))
    assert event == "ADDED"
    client.delete(ConfigMap, meta.name)


def test_kubernetes_asyncio(api_server: ServerProcess) -> None:
    from kubernetes_asyncio import client, config, watch

    async def scene() -> None:
        await config.load_kube_config(config_file=str(api_server.kubeconfig))
        async with client.ApiClient() as api:
            core = client.CoreV1Api(api)
            body: Any = {"metadata": {"name": "by-asyncio"}, "data": {"a": "1"}}
            await core.create_namespaced_config_map("default", body)
            changed = await core.patch_namespaced_config_map("by-asyncio", "default", {"data": {"b": "2"}})
            assert changed.data == {"a": "1", "b": "2"}
            query = {"field_selector": "metadata.name=by-asyncio", "timeout_seconds": 60}
            async with watch.Watch().stream(core.list_namespaced_config_map, "default", **query) as events:
                async for event in events:
                    assert event["object"].data == {"a": "1", "b": "2"}
                    break
            await core.delete_namespaced_config_map("by-asyncio", "default")

    asyncio.run(scene())


def test_kr8s(api_server: ServerProcess) -> None:
    import kr8s
    from kr8s.asyncio.objects import ConfigMap

    async def scene() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # this kr8s knows versions up to 1.35
            api = await kr8s.asyncio.api(kubeconfig=str(api_server.kubeconfig))
        body = {"metadata": {"name": "by-kr8s", "namespace": "default"}, "data": {"a": "1"}}
        made = await ConfigMap(body, api=api)
        await made.create()
        await made.patch({"data": {"b": "2"}})
        await made.refresh()
        assert made.data == {"a": "1", "b": "2"}
        assert "by-kr8s" in [one.name async for one in api.get("configmaps", namespace="default")]
        await made.delete()

    asyncio.run(scene())


def test_an_operator_of_kopf(api_server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "operator.py").write_text(OPERATOR)
    api_server.make_namespace("by-kopf")
    maps = "/api/v1/namespaces/by-kopf/configmaps"
    body = {"metadata": {"name": "m", "labels": {"operated": "yes"}}, "data": {"a": "1"}}
    assert api_server.ask("POST", maps, body).code == 201
    environment = os.environ | {"KUBECONFIG": str(api_server.kubeconfig)}
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "-n", "by-kopf", str(tmp_path / "operator.py")]
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait = [
                KUBECTL,
                "wait",
                "-n",
                "by-kopf",
                "configmap/m",
                "--for=jsonpath={.data.seen}=by kopf",
                "--timeout=200s",
            ]
            subprocess.run(wait, env=environment, check=True, capture_output=True, timeout=240)
        finally:
            running.terminate()
            running.wait(60)
    assert api_server.ask("GET", f"{maps}/m").body["data"] == {"a": "1", "seen": "by kopf"}
