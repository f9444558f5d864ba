"""Calls of webhooks: the URL, the request, and the meaning of the response."""

from __future__ import annotations

import base64
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.admission.hooks.webhook_call import Mutation, WebhookCaller, answered

JOBS: Any = Resource(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True)
REVIEW: Any = SimpleNamespace(resource=JOBS, name="j")


def response(**said: Any) -> Any:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **said}}
    return SimpleNamespace(status=200, body=json.dumps(review).encode())


def judged(answer: Any) -> Mutation:
    return answered("hook", REVIEW, "u", answer)


def test_what_is_allowed_may_be_changed() -> None:
    assert judged(response(allowed=True, warnings=["w"])) == Mutation(patch=[], warnings=("w",))
    patch = [{"op": "add", "path": "/a", "value": 1}]
    text = base64.b64encode(json.dumps(patch).encode()).decode()
    assert judged(response(allowed=True, patch=text, patchType="JSONPatch")).patch == patch


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (SimpleNamespace(status=500, body=b" broken\n"), "status 500: broken"),
        (SimpleNamespace(status=200, body=b'{"kind": "Status"}'), "expected AdmissionReview of admission.k8s.io/v1"),
        (response(uid="other", allowed=True), 'expected response.uid="u", got "other"'),
        (response(allowed=True, patch="W10=", patchType="Merge"), "unsupported patch type 'Merge'"),
        (response(allowed=True, patch="*", patchType="JSONPatch"), "the patch is not base64"),
    ],
)
def test_invalid_answers(answer: Any, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        judged(answer)


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        (None, 403, "Forbidden", 'jobs.batch "j" is forbidden: admission webhook "hook" denied the request without '
         "explanation"),
        ({"message": "no", "code": 400, "reason": "BadRequest"}, 400, "BadRequest",
         'jobs.batch "j" is forbidden: admission webhook "hook" denied the request: no'),
        ({"code": 500, "message": "no"}, 500, "InternalError",
         'Internal error occurred: admission webhook "hook" denied the request: no'),
    ],
)  # fmt: skip
def test_denials(status: Any, code: int, reason: str, message: str) -> None:
    with pytest.raises(StatusError) as raised:
        judged(response(allowed=False, status=status))
    error = raised.value
    assert (error.code, error.reason, error.message) == (code, reason, message)


def pod(address: str, *, ready: bool = True, **labels: str) -> Any:
    conditions = [{"type": "Ready", "status": str(ready)}]
    container = {"ports": [{"name": "web", "containerPort": 9443}]}
    return {
        "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": [{}, container]},
        "status": {"podIP": address, "conditions": conditions},
    }


def place(service: Any, *pods: Any, **client: Any) -> tuple[str, str, str]:
    objects = {"services": [service] if service else [], "pods": list(pods)}
    caller = WebhookCaller(lambda plural, namespace: objects[plural])
    said = client or {"service": {"name": "s", "namespace": "ns", "port": 443, "path": "mutate"}}
    found, path = caller._place(said)
    return found.url, found.server_name, path


def service(target: int | str = "web", selector: Any = None) -> Any:
    spec = {"ports": [{"port": 443, "targetPort": target}], "selector": {"app": "a"} if selector is None else selector}
    return {"metadata": {"name": "s"}, "spec": spec}


def test_a_service_is_reached_at_a_ready_pod_of_it() -> None:
    pods = (pod("10.0.0.1", app="b"), pod("10.0.0.2", app="a", ready=False), pod("fd00::3", app="a"))
    assert place(service(), *pods) == ("https://[fd00::3]:9443", "s.ns.svc", "/mutate")
    assert place(service(8443), *pods)[0] == "https://[fd00::3]:8443"


@pytest.mark.parametrize(
    ("some", "pods", "why"),
    [
        (None, (), 'service "s" not found'),
        ({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}, (), "no service port 443 found"),
        (service(), (pod("10.0.0.1", app="b"),), 'no endpoints available for service "s"'),
        (service(selector={}), (pod("10.0.0.1"),), 'no endpoints available for service "s"'),
        (service("other"), (pod("10.0.0.1", app="a"),), 'pod "p" has no port named "other"'),
    ],
)
def test_services_that_cannot_be_reached(some: Any, pods: Any, why: str) -> None:
    with pytest.raises(ConnectionError) as raised:
        place(some, *pods)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("url", "base", "path"), [("https://h:1/a/b?c", "https://h:1", "/a/b?c"), ("https://h", "https://h", "/")]
)
def test_a_url_has_its_path(url: str, base: str, path: str) -> None:
    assert place(None, url=url) == (base, "", path)
