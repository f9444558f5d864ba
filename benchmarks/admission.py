"""What making Jobs ours costs whoever creates them: with nothing, with our policies in the API server, by the webhook.

API server and webhook share this process, so the processor time is that of both sides; the webhook is asked by real
HTTPS over loopback. `python benchmarks/admission.py [JOBS]`
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from phalanx.embedded.apiserver.app.api import Api
from phalanx.embedded.apiserver.auth.authentication import token_of, write_tokens
from phalanx.embedded.apiserver.auth.authority import make_authority, make_server
from phalanx.embedded.apiserver.server import open_api
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.transport.http import RawRequest
from phalanx.extensions.webhook.review import judge, read
from phalanx.extensions.webhook.serving import ReviewAnswerer, serving, show, tls_context
from phalanx.kube.install.admission_policy import INSTALLED, PATH, WEBHOOK, WEBHOOKS
from phalanx.metrics.admissions import Admissions

GROUP = "/apis/admissionregistration.k8s.io/v1"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


class Server:
    def __init__(self, api: Api, token: str) -> None:
        self._api, self._headers = api, {b"authorization": f"Bearer {token}".encode()}

    async def make(self, path: str, body: Any) -> None:
        answer = await self._api(RawRequest("POST", path, b"", self._headers, json.dumps(body).encode()))
        if answer.code != 201:
            raise SystemExit(f"{path}: {answer.code} {answer.body.decode()}")


def job(number: int) -> Any:
    containers = [{"name": "main", "image": "host", "command": ["true"]}]
    template = {"spec": {"restartPolicy": "Never", "schedulerName": "default-scheduler", "containers": containers}}
    meta = {"name": f"job-{number}", "labels": {"phalanx.dev/queue": "default"}}
    return {"metadata": meta, "spec": {"parallelism": 2, "completions": 2, "template": template}}


async def policies(server: Server) -> None:
    for kind, body in INSTALLED:
        await server.make(f"{GROUP}/{kind.plural}", body)


async def measured(name: str, jobs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = StoreSettings(data_dir=Path(folder))
        write_tokens(settings.tokens, [("admin", "admin", ("system:masters",))])
        api = await open_api(settings)
        server, context = Server(api, token_of(settings.tokens, "admin")), tls_context()
        now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
        authority = make_authority("benchmark-ca", now, day)
        show(context, make_server(authority, "benchmark", ["127.0.0.1"], now, day))
        async with serving(("127.0.0.1", 0), context, ReviewAnswerer(Admissions())) as port:
            if name == "policies":
                await policies(server)
            elif name == "webhook":
                bundle = base64.b64encode(authority.certificate_pem).decode()
                client = {"url": f"https://127.0.0.1:{port}{PATH}", "caBundle": bundle}
                hooks = [{**hook, "clientConfig": client} for hook in WEBHOOK["webhooks"]]
                await server.make(f"{GROUP}/{WEBHOOKS.plural}", {**WEBHOOK, "webhooks": hooks})
            await server.make(JOBS, job(0))
            cpu_ms, wall_ms = await created(server, jobs)
            print(f"{name:>10} {cpu_ms:12.2f} {wall_ms:12.2f}")
        await api.shutdown()


async def created(server: Server, jobs: int) -> tuple[float, float]:
    """Milliseconds for each Job, one after the other: of processor time, and the median that its user waits."""
    took, begin_s = [], time.process_time()
    for number in range(1, jobs + 1):
        sent_s = time.perf_counter()
        await server.make(JOBS, job(number))
        took.append(time.perf_counter() - sent_s)
    return (time.process_time() - begin_s) / jobs * 1e3, statistics.median(took) * 1e3


def reviews(times: int) -> float:
    """Microseconds of processor time for judging one, without HTTPS."""
    request = {
        "uid": "1",
        "operation": "CREATE",
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "userInfo": {"username": "admin"},
        "object": job(0),
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
    judge(read(body))
    begin_s = time.process_time()
    for _ in range(times):
        judge(read(body))
    return (time.process_time() - begin_s) / times * 1e6


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{'':>10} {'ms processor':>12} {'ms waited':>12}   for each of {jobs} Jobs")
    for name in ("nothing", "policies", "webhook"):
        asyncio.run(measured(name, jobs))
    print(f"judging a review takes {reviews(2 * jobs):.0f} µs of processor time")


if __name__ == "__main__":
    main()
