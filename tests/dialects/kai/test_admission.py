"""Admission policies in the API server refuse pods that KAI's webhooks refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import PODS
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.dialect import KAI
from phalanx.kube.install.definitions import install_dialect
from tests.embedded.apiserver.process import ServerProcess

pytestmark = pytest.mark.slow
REFUSED: dict[str, dict[str, str]] = {
    "gpu-fraction must be a number": {"gpu-fraction": "1.5"},
    "mutually exclusive": {"gpu-fraction": "0.5", "gpu-memory": "100"},
    "gpu-memory must be a whole number": {"gpu-memory": "1Gi"},
    "gpu-fraction-num-devices must be a whole number": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"},
    "must name a container of the pod": {"gpu-fraction": "0.5", "gpu-fraction-container-name": "absent"},
}


def pod(name: str, notes: dict[str, str]) -> Object:
    containers = {
        "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}],
        "initContainers": [{"name": "first", "image": "i"}],
    }
    spec = {"schedulerName": kinds.SCHEDULER_NAME, **containers}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": notes},
        "spec": spec,
    }


def test_pods_with_parts_of_gpus(tmp_path: Path) -> None:
    async def play(server: ServerProcess) -> None:
        async with await Connection.open(server.kubeconfig) as api:
            await install_dialect(api, KAI)
            for words, notes in REFUSED.items():
                with pytest.raises(ApiRefusal, match=words):
                    await api.create(PODS, pod("refused", notes), "default")
            for container in ("d", "first"):
                notes = {"gpu-fraction": "0.5", "gpu-fraction-container-name": container}
                await api.create(PODS, pod(container, notes | {"gpu-fraction-num-devices": "2"}), "default")

    with ServerProcess.started(tmp_path) as server:
        asyncio.run(play(server))
