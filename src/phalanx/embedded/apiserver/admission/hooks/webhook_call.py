"""Call a mutating or validating webhook: post the AdmissionReview to it, and interpret its response.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook (request, errors) and pkg/util/webhook/client.go. If a webhook
names a Service, the server connects to one of the pods that the Service selects, because this server does not proxy
cluster addresses. It verifies the certificate for the name of the Service, NAME.NAMESPACE.svc.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.client.http import Http, HttpAnswer
from phalanx.embedded.apimachinery.expressions.admission_policy import Review, named, selected
from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import StatusError, qualified

_CONNECTIONS = 32  # the maximum number of concurrent calls to one address; further calls wait
# If connections to this number of addresses are open, all are closed, because most of the addresses are those of
# earlier pods.
_PLACES = 64
_HEAD = "content-type: application/json\r\naccept: application/json\r\nuser-agent: kube-apiserver-admission\r\n"
API_VERSION = "admission.k8s.io/v1"


class CallFailed(Exception):
    """Raised if the webhook gave no response, or an invalid one. The webhook's `failurePolicy` then decides about the
    request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """The changes to the object that a webhook's response contains. `patch`: a JSON patch, which may be empty."""

    patch: list[Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WebhookPlace:
    """The address of a webhook, and the name for which its certificate must be valid."""

    url: str
    server_name: str
    bundle: str


Lister = Callable[[str, str], Iterable[Object]]  # (plural, namespace) -> the objects of a kind of the core group


class WebhookCaller:
    """Calls webhooks. It keeps connections open for further calls."""

    def __init__(self, objects: Lister) -> None:
        self._objects = objects
        self._clients: dict[WebhookPlace, Http] = {}

    def forget(self) -> None:
        """Close the connections, because the webhook configurations have changed. Calls that have begun still get their
        response."""
        for client in self._clients.values():
            client.drop_idle()
        self._clients.clear()

    async def call(self, hook: Mapping[str, Any], review: Review, form: Resource) -> Mutation:
        """Send the request to the webhook, with the object in the API version of `form`. Raises `CallFailed`, and
        `StatusError` if the webhook denies the request."""
        name, timeout_s = hook["name"], hook["timeoutSeconds"]
        uid, shown = str(uuid.uuid4()), str(hook["clientConfig"].get("url") or "")
        try:
            place, path = self._place(hook["clientConfig"])
            shown = f"{place.url}{path}?timeout={timeout_s}s"
            body = msgspec.json.encode(asked(review, form, uid))
            target = f"{path}?timeout={timeout_s}s"
            async with asyncio.timeout(timeout_s):  # the timeout includes connecting, and waiting for earlier calls
                answer = await self._client(place).call("POST", target, _HEAD, body, timeout_s=float(timeout_s))
        except (OSError, ValueError) as error:
            why = f'failed to call webhook: Post "{shown}": {str(error) or type(error).__name__}'
            raise CallFailed(f'failed calling webhook "{name}": {why}') from error
        try:
            return answered(name, review, uid, answer)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            why = f"received invalid webhook response: {error}"
            raise CallFailed(f'failed calling webhook "{name}": {why}') from error

    def _place(self, client: Mapping[str, Any]) -> tuple[WebhookPlace, str]:
        """Return the address and the path of a webhook. `client`: its `clientConfig`. Raises ConnectionError if its
        Service has no ready pod."""
        bundle = base64.b64decode(client.get("caBundle") or "").decode("ascii")
        if url := client.get("url"):
            scheme, _, rest = url.partition("://")
            host, slash, path = rest.partition("/")
            return WebhookPlace(f"{scheme}://{host}", "", bundle), f"{slash or '/'}{path}"
        service = client["service"]
        name, namespace, path = service["name"], service["namespace"], service.get("path") or "/"
        address, port = self._endpoint(name, namespace, service["port"])
        host = f"[{address}]" if ":" in address else address
        return WebhookPlace(f"https://{host}:{port}", f"{name}.{namespace}.svc", bundle), f"/{path.lstrip('/')}"

    def _endpoint(self, name: str, namespace: str, number: int) -> tuple[str, int]:
        found = next((one for one in self._objects("services", namespace) if one["metadata"]["name"] == name), None)
        if found is None:
            raise ConnectionError(f'service "{name}" not found')
        port = next((one for one in found["spec"].get("ports") or () if one["port"] == number), None)
        if port is None:
            raise ConnectionError(f'no service port {number} found for service "{name}"')
        wanted = found["spec"].get("selector") or {}
        for pod in self._objects("pods", namespace):
            address = (pod.get("status") or {}).get("podIP")
            labels = pod["metadata"].get("labels") or {}
            if address and wanted and selected({"matchLabels": wanted}, labels) and _is_ready(pod):
                return address, _pod_port(pod, port.get("targetPort", number))
        raise ConnectionError(f'no endpoints available for service "{name}"')

    def _client(self, place: WebhookPlace) -> Http:
        if place not in self._clients:
            if len(self._clients) >= _PLACES:
                self.forget()
            tls = ssl.create_default_context(cadata=place.bundle or None)
            name = place.server_name
            self._clients[place] = Http(place.url, tls=tls, limit=_CONNECTIONS, server_name=name)
        return self._clients[place]


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _pod_port(pod: Object, target: int | str) -> int:
    """Return the number of a pod's port. `target`: the number, or the name that a container gives the port. Raises
    ConnectionError if no container has a port of that name."""
    if isinstance(target, int):
        return target
    ports = (port for container in pod["spec"]["containers"] for port in container.get("ports") or ())
    for port in ports:
        if port.get("name") == target:
            return int(port["containerPort"])
    raise ConnectionError(f'pod "{pod["metadata"]["name"]}" has no port named "{target}"')


def asked(review: Review, form: Resource, uid: str) -> Object:
    """Return the AdmissionReview for a request."""
    user, sub = review.user, review.subresource
    options = f"{review.operation.capitalize()}Options"
    by = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    request = {
        "uid": uid,
        **named(review, form),
        **({"subResource": sub, "requestSubResource": sub} if sub else {}),
        "name": review.name,
        "namespace": (review.namespace or {}).get("metadata", {}).get("name", ""),
        "operation": review.operation,
        "userInfo": {key: value for key, value in by.items() if value},
        "object": review.shown(form, review.obj),
        "oldObject": review.shown(form, review.old),
        "dryRun": review.dry_run,
        "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": API_VERSION, "request": request}


def answered(name: str, review: Review, uid: str, answer: HttpAnswer) -> Mutation:
    """Return the changes to the object that a webhook's response contains. Raises ValueError, KeyError or TypeError for
    an invalid response, and `StatusError` for a refusal."""
    if answer.status != 200:
        raise ValueError(f"status {answer.status}: {answer.body[:300].decode(errors='replace').strip()}")
    found = msgspec.json.decode(answer.body)
    if (found.get("apiVersion"), found.get("kind")) != (API_VERSION, "AdmissionReview"):
        raise ValueError(f"expected AdmissionReview of {API_VERSION}, got {found.get('kind')}")
    response = found["response"]
    if response.get("uid") != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.get("uid")}"')
    if not response.get("allowed"):
        raise _denial(name, review, response.get("status") or {})
    warnings = tuple(str(text) for text in response.get("warnings") or ())
    if not response.get("patch"):
        return Mutation(patch=[], warnings=warnings)
    if response.get("patchType") != "JSONPatch":
        raise ValueError(f"unsupported patch type {response.get('patchType')!r}")
    try:
        patch = msgspec.json.decode(base64.b64decode(response["patch"], validate=True))
    except binascii.Error as error:
        raise ValueError(f"the patch is not base64: {error}") from error
    return Mutation(patch=patch, warnings=warnings)


def _denial(webhook: str, review: Review, status: Mapping[str, Any]) -> StatusError:
    resource, name = review.resource, review.name or "Unknown"
    code = int(status.get("code") or 403)
    why = status.get("message") or status.get("reason")
    text = f'admission webhook "{webhook}" denied the request' + (f": {why}" if why else " without explanation")
    if code == 500:
        whole = f"Internal error occurred: {text}"
        return StatusError(500, status.get("reason") or "InternalError", whole, details={"causes": [{"message": text}]})
    said = status.get("details") or {"name": name, "group": resource.group, "kind": resource.plural}
    subject = f'{qualified(resource.plural, resource.group)} "{name}"'
    reason = status.get("reason") or "Forbidden"
    return StatusError(code, reason, f"{subject} is forbidden: {text}", details={k: v for k, v in said.items() if v})
