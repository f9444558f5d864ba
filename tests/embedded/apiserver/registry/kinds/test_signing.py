"""CertificateSigningRequests: the server writes who asked, and only the subresource approves."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.embedded.apiserver.inprocess import InProcess

CLASSES, SIGNING = "/apis/storage.k8s.io/v1/storageclasses", "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def test_a_request_to_sign_says_who_asked_and_only_that_subresource_approves(tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            spec = {
                "request": request(),
                "signerName": "a.example.com/x",
                "usages": ["client auth"],
                "username": "root",
            }
            made = await client.make(SIGNING, {"metadata": {"name": "r"}, "spec": spec})
            assert (made["spec"]["username"], made["spec"]["groups"]) == (
                "admin",
                ["system:masters", "system:authenticated"],
            )
            approved = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Fine"}]}}
            merge = "application/merge-patch+json"
            assert "conditions" not in (await client.ask("PATCH", f"{SIGNING}/r", approved, merge)).body["status"]
            found = (await client.ask("PATCH", f"{SIGNING}/r/approval", approved, merge)).body
            assert [one["type"] for one in found["status"]["conditions"]] == ["Approved"]
            assert found["spec"] == made["spec"]

    asyncio.run(scene())
