"""`kubectl exec`, `attach`, `cp` and `port-forward`: the API server joins the client's WebSocket with the node's.

The server checks the user's rights, and finds the pod and the container. It forwards the handshake to the pod's node,
and afterwards forwards bytes in both directions without reading them. SPDY (kubectl before 1.31, Go programs with
`remotecommand.NewSPDYExecutor`) is tunnelled in a WebSocket to the node, which handles it.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import ssl
from urllib.parse import quote, urlencode

from phalanx.embedded.apimachinery.meta.status import ApiError, bad_request, not_found
from phalanx.embedded.apiserver.endpoints.subresources.logs import container_of
from phalanx.embedded.apiserver.endpoints.subresources.node_client import endpoint_of
from phalanx.embedded.apiserver.endpoints.subresources.tunnel import Tunnel, answered
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Object, Store
from phalanx.embedded.apiserver.transport.request import Request, Response

STREAMS = ("exec", "attach", "portforward")
_SPDY = "SPDY/3.1"
_OVER_SPDY = {"portforward": ("portforward.k8s.io",)}  # all other streams send a status at the end
_WITH_STATUS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CONNECT_TIMEOUT_S = 10.0


class Streams:
    """Connects the WebSockets of clients with those of nodes."""

    def __init__(self, store: Store, settings: StoreSettings) -> None:
        self._store, self._settings = store, settings

    async def open(self, target: RouteTarget, request: Request) -> Response:
        """Return the node's answer to the client's handshake, and pass on the streams after it. Raises `ApiError`."""
        namespace, name = target.namespace, target.name
        stored = self._store.get(("", "pods"), namespace, name)
        if stored is None:
            raise not_found("", "pods", name)
        container = "" if target.sub == "portforward" else container_of(name, stored.obj, request.text("container"))
        node_name = stored.obj["spec"].get("nodeName")
        if not node_name:
            raise bad_request(f"pod {name} does not have a host assigned")
        node = self._store.get(("", "nodes"), "", node_name)
        if node is None:
            raise not_found("", "pods", node_name)  # the real server looks for the node as if it were a pod
        path = _path(target.sub, stored.obj, container, request)
        if request.websocket_key:
            key, protocols, spdy = request.websocket_key, request.websocket_protocols, ""
        elif request.spdy_protocols:
            spdy = _chosen(target.sub, request.spdy_protocols)
            key, protocols = base64.b64encode(secrets.token_bytes(16)).decode(), f"{_SPDY}+{spdy}"
        else:
            raise bad_request("Upgrade request required")
        host, port = endpoint_of(node.obj)
        reader, writer = await self._connect(host.strip("[]"), port)
        return await answered(reader, writer, self._handshake(path, host, port, key, protocols), spdy)

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the node: by TLS, trusting this server's certificate authority, or without TLS if the node does
        not speak it. Raises `ApiError` 500."""
        failure: Exception | None = None
        trust = ssl.create_default_context(cafile=str(self._settings.ca_certificate))
        for context in (trust, None):
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(host, port, ssl=context, limit=Tunnel.HEAD_BYTES)
            except ssl.SSLCertVerificationError as error:
                failure = error  # another program with a certificate that is not the node's: send it nothing
                break
            except (OSError, TimeoutError) as error:
                failure = error
        raise ApiError(500, "InternalError", f"error dialing backend: {failure}")

    def _handshake(self, path: str, host: str, port: int, key: str, protocols: str) -> bytes:
        token = self._settings.kubelet_token.read_text().strip()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}:{port}",
            f"Authorization: Bearer {token}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        ]
        if protocols:
            lines.append(f"Sec-WebSocket-Protocol: {protocols}")
        return "\r\n".join((*lines, "", "")).encode("latin-1")


def _path(sub: str, pod: Object, container: str, request: Request) -> str:
    """Return the path of the stream on the node. Raises `ApiError` 400."""
    meta = pod["metadata"]
    where = f"{quote(meta['namespace'])}/{quote(meta['name'])}"
    query = urlencode([(key, value) for key, values in request.query.items() for value in values])
    if sub == "portforward":
        return f"/portForward/{where}?{query}"
    if not any(request.flag(key) for key in ("stdin", "stdout", "stderr")):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return f"/{sub}/{where}/{quote(container)}?{query}"


def _chosen(sub: str, offered: str) -> str:
    """Return the best of the protocols that a client speaks over SPDY. Raises `ApiError` 403, as a kubelet does."""
    served, said = _OVER_SPDY.get(sub, _WITH_STATUS), [one.strip() for one in offered.split(",")]
    found = next((one for one in served if one in said), None)
    if found is None:
        why = f"unable to upgrade: unable to negotiate protocol: client supports {said}, server accepts {list(served)}"
        raise ApiError(403, "Forbidden", why)
    return found
