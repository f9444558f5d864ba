"""Webhooks of a test: real HTTPS on this machine, and the configurations by which an API server calls them."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

from phalanx.embedded.apiserver.auth.authority import make_authority, make_server
from phalanx.embedded.apiserver.transport.http import RawRequest
from phalanx.embedded.apiserver.transport.request import Response
from phalanx.extensions.webhook.serving import serving, show, tls_context

NOW = dt.datetime.now(dt.UTC)
AUTHORITY = make_authority("hooks-ca", NOW, dt.timedelta(days=1))
BUNDLE = base64.b64encode(AUTHORITY.certificate_pem).decode()
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
JOBS = "/apis/batch/v1/namespaces/default/jobs"

Judge = Callable[[Any], Any]  # the request of a review -> the rest of the response, or an awaitable of it


def patch(*operations: Any) -> Any:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


def labelled(name: str, value: str = "yes") -> Any:
    return patch({"op": "add", "path": f"/metadata/labels/{name}", "value": value})


@dataclass
class Hooks:
    """`judges`: by path. `seen`: (path, query, review), as they came."""

    judges: dict[str, Judge] = field(default_factory=dict)
    seen: list[tuple[str, str, Any]] = field(default_factory=list)
    port: int = 0

    async def __call__(self, raw: RawRequest) -> Response:
        asked = json.loads(raw.body)
        self.seen.append((raw.path, raw.query.decode(), asked))
        found = self.judges[raw.path](asked["request"])
        if isawaitable(found):
            found = await found
        if isinstance(found, Response):
            return found
        response = {"uid": asked["request"]["uid"], **found}
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        return Response(body=json.dumps(answer).encode())

    @property
    def calls(self) -> list[str]:
        return [path for path, _, _ in self.seen]

    def hook(self, path: str, **rest: Any) -> Any:
        return {
            "name": f"{path.strip('/')}.hooks.test",
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": BUNDLE},
            "rules": [rule("batch", "jobs", "CREATE", "UPDATE")],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
            **rest,
        }


@asynccontextmanager
async def hooks(**judges: Judge) -> AsyncIterator[Hooks]:
    found = Hooks({f"/{name}": judge for name, judge in judges.items()})
    context = tls_context()
    names = ["127.0.0.1", "hook.default.svc"]
    show(context, make_server(AUTHORITY, "hooks", names, NOW, dt.timedelta(days=1)))
    async with serving(("127.0.0.1", 0), context, found) as found.port:
        yield found


def rule(group: str, plural: str, *operations: str) -> Any:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": list(operations), "resources": [plural]}


def configuration(*webhooks: Any, name: str = "hooks") -> Any:
    return {"metadata": {"name": name}, "webhooks": list(webhooks)}


def job(name: str = "train", labels: Any = None, **spec: Any) -> Any:
    containers = [{"name": "main", "image": "host"}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    return {"metadata": {"name": name, "labels": labels or {"app": "x"}}, "spec": {"template": template, **spec}}
