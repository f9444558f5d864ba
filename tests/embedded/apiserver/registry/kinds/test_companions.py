"""Kinds related to services and volumes: EndpointSlices, ingresses, classes, CertificateSigningRequests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import InProcess

NETWORKING, SPACE = "/apis/networking.k8s.io/v1", "/namespaces/default"

SLICES = f"/apis/discovery.k8s.io/v1{SPACE}/endpointslices"

INGRESSES = f"{NETWORKING}{SPACE}/ingresses"

CLASSES, SIGNING = "/apis/storage.k8s.io/v1/storageclasses", "/apis/certificates.k8s.io/v1/certificatesigningrequests"

BACKEND = {"service": {"name": "web", "port": {"number": 80}}}

PATHS = [{"path": "/", "pathType": "Prefix", "backend": BACKEND}]

INGRESS = {"rules": [{"host": "a.example.com", "http": {"paths": PATHS}}]}

TABLE = b"application/json;as=Table;v=v1;g=meta.k8s.io"


async def row(client: InProcess, path: str) -> list[Any]:
    raw = client.request("GET", path)
    raw.headers[b"accept"] = TABLE
    return list(json.loads((await client.api(raw)).body)["rows"][0]["cells"])


def test_what_they_default_to_and_how_they_are_shown(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            ends = [{"addresses": [f"10.0.0.{number}"]} for number in range(1, 5)]
            made = {"metadata": {"name": "s-1"}, "addressType": "IPv4", "endpoints": ends, "ports": [{"port": 80}]}
            found = await client.make(SLICES, made)
            assert (found["ports"], found["metadata"]["generation"]) == (
                [{"name": "", "port": 80, "protocol": "TCP"}],
                1,
            )
            shown = await row(client, SLICES)
            assert shown[:4] == ["s-1", "IPv4", "80", "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more..."]
            ingress = await client.make(INGRESSES, {"metadata": {"name": "i"}, "spec": INGRESS})
            assert ingress["status"] == {"loadBalancer": {}}
            assert (await row(client, INGRESSES))[:5] == ["i", "<none>", "a.example.com", "", "80"]
            chosen = {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
            made = await client.make(CLASSES, {"metadata": chosen, "provisioner": "example.com/disk"})
            assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")
            assert (await row(client, CLASSES))[:5] == [
                "fast (default)",
                "example.com/disk",
                "Delete",
                "Immediate",
                False,
            ]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("path", "obj", "says"),
    [
        (SLICES, {"endpoints": []}, "addressType: Required value"),
        (SLICES, {"addressType": "IPv4", "endpoints": [{"addresses": []}]}, "endpoints[0].addresses: Required value"),
        (
            SLICES,
            {"addressType": "IPv4", "endpoints": [{"addresses": ["x"]}]},
            "endpoints[0].addresses[0]: Invalid value",
        ),
        (INGRESSES, {"spec": {}}, "either `defaultBackend` or `rules` must be specified"),
        (INGRESSES, {"spec": {"rules": [{"http": {"paths": [{"backend": BACKEND}]}}]}}, "pathType must be specified"),
        (
            INGRESSES,
            {"spec": {"defaultBackend": {"service": {"name": "x", "port": {}}}}},
            "port name or number is required",
        ),
        (f"{NETWORKING}/ingressclasses", {"spec": {}}, "spec.controller: Required value"),
        (CLASSES, {"provisioner": ""}, "provisioner: Required value"),
        (CLASSES, {"provisioner": "a/b", "reclaimPolicy": "Recycle"}, 'reclaimPolicy: Unsupported value: "Recycle"'),
        (
            SIGNING,
            {"spec": {"request": "AAAA", "signerName": "a.b/c", "usages": ["client auth"]}},
            "CERTIFICATE REQUEST",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, path: str, obj: Any, says: str) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            answer = await client.ask("POST", path, {"metadata": {"name": "x"}, **obj})
            assert answer.code == 422
            assert says in answer.body["message"]

    asyncio.run(scene())


def test_what_may_not_change(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            await client.make(CLASSES, {"metadata": {"name": "c"}, "provisioner": "a/b"})
            patched = await client.ask("PATCH", f"{CLASSES}/c", {"provisioner": "c/d"}, "application/merge-patch+json")
            refused = (
                'StorageClass.storage.k8s.io "c" is invalid: provisioner: Invalid value: "c/d": field is immutable'
            )
            assert (patched.code, patched.body["message"]) == (422, refused)

    asyncio.run(scene())
