"""Connections of `kubectl exec`, `attach`, `cp` and `port-forward`: the API server joins the client's WebSocket with a
WebSocket of the node.

The server checks the user's rights, and finds the pod and the container. It forwards the handshake to the pod's node,
and afterwards forwards bytes in both directions without reading them. SPDY (which kubectl before 1.31 and Go programs
with `remotecommand.NewSPDYExecutor` use) is tunnelled to the node in a WebSocket, and the node handles it.

A `NodeTunnel` joins the two connections. It sends the client's data to the program that has accepted the handshake, and
the program's data to the client."""

from __future__ import annotations

import asyncio
import base64
import secrets
import ssl
from collections.abc import AsyncIterator
from urllib.parse import quote, urlencode

from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request, not_found
from phalanx.embedded.apiserver.endpoints.subresources.logs import container_of
from phalanx.embedded.apiserver.endpoints.subresources.node_client import endpoint_of, refused
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Object, Store
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response
from phalanx.embedded.apiserver.transport.websocket import Unwrapper, wrapped

_ANSWER_TIMEOUT_S = 10.0
_WAITING_MOST_BYTES = 2**20
_PIECE_BYTES = 64 * 1024


async def answered(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handshake: bytes, spdy: str = ""
) -> Response:
    """Send the handshake, and return the response to it with the connection. `spdy`: the protocol of a client that uses
    SPDY; "" for WebSocket. Raises `StatusError` if the node or pod refuses the handshake."""
    try:
        writer.write(handshake)
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
            code = int(head.split(b" ", 2)[1])
            if code != 101:
                text = await reader.read(NodeTunnel.HEAD_BYTES)
                raise refused(code, text.decode(errors="replace"))
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise StatusError(500, "InternalError", f"error dialing backend: {error}") from None
    except StatusError:
        writer.close()
        raise
    return Response(code=101, tunnel=SpdyTunnel(spdy, reader, writer) if spdy else NodeTunnel(head, reader, writer))


class NodeTunnel:
    """The connection to the node or pod. Iterating over the tunnel yields the data for the client, beginning with the
    response to its handshake."""

    HEAD_BYTES = 64 * 1024  # the longest response to a handshake

    def __init__(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._head, self._reader, self._writer = head, reader, writer
        writer.transport.set_write_buffer_limits(high=_WAITING_MOST_BYTES)

    def write(self, data: bytes) -> bool:
        """Send data of the client to the node or pod. Return True if the caller should wait for `drained`."""
        self._writer.write(data)
        return self._writer.transport.get_write_buffer_size() > _WAITING_MOST_BYTES

    async def drained(self) -> None:
        """Wait until the node or pod has read enough of the data. Raises OSError."""
        await self._writer.drain()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._head
        while piece := await self._read():
            yield piece

    async def _read(self) -> bytes:
        """Return the next data from the node or pod; b"" if the node or pod has disconnected."""
        try:
            return await self._reader.read(_PIECE_BYTES)
        except OSError:
            return b""

    async def aclose(self) -> None:
        self._writer.close()


class SpdyTunnel(NodeTunnel):
    """A tunnel for a client that uses SPDY. The node gets the SPDY data in binary messages of a WebSocket."""

    def __init__(self, protocol: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            f"X-Stream-Protocol-Version: {protocol}\r\n\r\n"
        )
        super().__init__(head.encode(), reader, writer)

    def write(self, data: bytes) -> bool:
        return super().write(wrapped(data))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._head
        messages = Unwrapper()
        while not messages.over and (piece := await self._read()):
            yield messages.hear(piece)


STREAMS = ("exec", "attach", "portforward")
_SPDY = "SPDY/3.1"
# exec and attach use the protocols in `_WITH_STATUS`, which end with a status
_OVER_SPDY = {"portforward": ("portforward.k8s.io",)}
_WITH_STATUS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CONNECT_TIMEOUT_S = 10.0


class Streams:
    """Joins the connections of clients with connections to nodes."""

    def __init__(self, store: Store, settings: StoreSettings) -> None:
        self._store, self._settings = store, settings

    async def open(self, target: RouteTarget, request: HttpRequest) -> Response:
        """Return the node's response to the client's handshake, and pass on the streams after it. Raises
        `StatusError`."""
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
            raise not_found("", "pods", node_name)  # the error of kube-apiserver also calls the missing node a pod
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
        """Connect to the node by TLS, trusting this server's certificate authority, or without TLS if the node does not
        use TLS. Raises `StatusError` 500."""
        failure: Exception | None = None
        trust = ssl.create_default_context(cafile=str(self._settings.ca_certificate))
        for context in (trust, None):
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    return await asyncio.open_connection(host, port, ssl=context, limit=NodeTunnel.HEAD_BYTES)
            except ssl.SSLCertVerificationError as error:
                # the certificate is not the node's, so another program listens at this address: send it nothing
                failure = error
                break
            except (OSError, TimeoutError) as error:
                failure = error
        raise StatusError(500, "InternalError", f"error dialing backend: {failure}")

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


def _path(sub: str, pod: Object, container: str, request: HttpRequest) -> str:
    """Return the path of the stream on the node. Raises `StatusError` 400."""
    meta = pod["metadata"]
    where = f"{quote(meta['namespace'])}/{quote(meta['name'])}"
    query = urlencode([(key, value) for key, values in request.query.items() for value in values])
    if sub == "portforward":
        return f"/portForward/{where}?{query}"
    if not any(request.flag(key) for key in ("stdin", "stdout", "stderr")):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return f"/{sub}/{where}/{quote(container)}?{query}"


def _chosen(sub: str, offered: str) -> str:
    """Return the best of the protocols that an SPDY client offers. Raises `StatusError` 403, like a kubelet."""
    served, said = _OVER_SPDY.get(sub, _WITH_STATUS), [one.strip() for one in offered.split(",")]
    found = next((one for one in served if one in said), None)
    if found is None:
        why = f"unable to upgrade: unable to negotiate protocol: client supports {said}, server accepts {list(served)}"
        raise StatusError(403, "Forbidden", why)
    return found
