"""`embedded/apiserver/transport/tables/documentation.py`: the columns of tables, as kube-apiserver documents them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.embedded.apiserver.endpoints.test_words_of_kubernetes import POD, PODS
from tests.embedded.apiserver.inprocess import InProcess

MAP = {"metadata": {"name": "m"}}
SIGNING = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
EXPECTED_COLUMNS = {
    "/apis/networking.k8s.io/v1/networkpolicies": ["Name", "Pod-Selector", "Age"],
    "/apis/networking.k8s.io/v1/ingressclasses": ["Name", "Controller", "Parameters", "Age"],
    "/apis/storage.k8s.io/v1/csistoragecapacities": ["Name", "Created At"],
    SIGNING: ["Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"],
}


def test_columns_of_tables_are_documented(tmp_path: Path) -> None:
    async def columns(api: InProcess, path: str) -> list[dict[str, Any]]:
        request = api.request("GET", path)
        request.headers[b"accept"] = b"application/json;as=Table;v=v1;g=meta.k8s.io"
        found: list[dict[str, Any]] = json.loads((await api.api(request)).body)["columnDefinitions"]
        return found

    async def scene() -> None:
        async with InProcess.started(tmp_path) as api:
            for path, names in EXPECTED_COLUMNS.items():
                assert [one["name"] for one in await columns(api, path)] == names
            texts = {one["name"]: one["description"] for one in await columns(api, PODS)}
            assert texts["Ready"] == "The aggregate readiness state of this pod for accepting traffic."
            assert texts["Node"].startswith("NodeName indicates in which node this pod is scheduled.")
            apps = "/apis/apps/v1/namespaces/default/deployments"
            found = {one["name"]: one["description"] for one in await columns(api, apps)}
            assert found["Up-to-date"].startswith("Total number of non-terminating pods")
            assert found["Images"] == "Images referenced by each container in the template."
            template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
            await api.make(apps, {**MAP, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
            assert [one["name"] for one in await columns(api, f"{apps}/m/scale")] == [
                "Name", "Desired", "Available", "Age"
            ]  # fmt: skip

    asyncio.run(scene())
