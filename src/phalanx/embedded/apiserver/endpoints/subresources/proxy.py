"""The paths `/proxy/` of pods, services and nodes: forward a request to a port of the named object, and return the
response.

    /api/v1/namespaces/NAMESPACE/pods/[https:]NAME[:PORT]/proxy/PATH
    /api/v1/namespaces/NAMESPACE/services/[https:]NAME[:PORT]/proxy/PATH
    /api/v1/nodes/NAME/proxy/PATH                                          (GET alone: /stats/summary, /healthz)

A browser behind `kubectl proxy` can reach a notebook or a dashboard in this way. The server does not forward the user's
token. The server forwards requests only to addresses of pods. Other addresses that users write into an EndpointSlice
are ignored. It also joins a WebSocket of the client with a WebSocket of the pod, as `streams.py` does for `kubectl
exec`.

Source: k8s.io/apimachinery/pkg/util/proxy, pkg/registry/core/{pod,service}/storage.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request, not_found
from phalanx.embedded.apiserver.endpoints.subresources.node_client import NodeClient
from phalanx.embedded.apiserver.endpoints.subresources.streams import NodeTunnel, answered
from phalanx.embedded.apiserver.registry.routing import RouteTarget, method_not_allowed, no_such_path
from phalanx.embedded.apiserver.storage.store import Object, Store
from phalanx.embedded.apiserver.transport.http import RawRequest
from phalanx.embedded.apiserver.transport.request import Response

if TYPE_CHECKING:
    import aiohttp

Address = tuple[str, str, int]  # scheme, host, port
_CONNECT_TIMEOUT_S = 10.0
# Headers that are valid for one connection only (RFC 9110, 7.6.1), and headers that this server creates itself.
_HOPS = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"content-length"}
_HOPS |= {b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"expect", b"host", b"authorization"}
_SOCKET = (b"sec-websocket-key", b"sec-websocket-protocol", b"sec-websocket-version", b"sec-websocket-extensions")
_BODILESS = (204, 304)


class Proxy:
    """Forwards requests to pods and nodes."""

    def __init__(self, store: Store, nodes: NodeClient) -> None:
        self._store, self._nodes = store, nodes

    async def open(self, target: RouteTarget, raw: RawRequest) -> Response:
        """Forward a request, and return the response. Raises `StatusError`."""
        if target.watch:
            raise no_such_path()
        prefix, path = _parts(target, raw)
        query = "?" + raw.query.decode("latin-1") if raw.query else ""
        # redirect to a path that ends with "/", so that relative links work
        if not path and raw.method in ("GET", "HEAD"):
            _, name, port = _split(target.name)
            self._existing(target.resource.plural, target.namespace, name)
            if target.resource.plural == "services":
                self._service(target.namespace, name, port)
            return Response(code=301, headers=((b"location", f"{prefix}/{query}".encode("latin-1")),))
        path = (path or "/") + query
        if target.resource.plural == "nodes":
            return await self._node(target.name, path, raw)
        scheme, name, port = _split(target.name)
        find = self._pod if target.resource.plural == "pods" else self._service
        host, number = find(target.namespace, name, port)
        address = (scheme, f"[{host}]" if ":" in host else host, number)
        if raw.websocket_key:
            return await _join(address, path, raw)
        return await self._pass(address, path, prefix, raw)

    # --- the target of a request ----------------------------------------------------------------------------------

    def _pod(self, namespace: str, name: str, port: str) -> tuple[str, int]:
        pod = self._existing("pods", namespace, name)
        ports = [one["containerPort"] for each in pod["spec"]["containers"] for one in each.get("ports") or ()]
        if port and not port.isdigit():
            raise bad_request(f"invalid pod request {name}:{port}: a pod's port is a number")
        return _address_of(pod), int(port) if port else (ports[0] if ports else 80)

    def _service(self, namespace: str, name: str, port: str) -> tuple[str, int]:
        service = self._existing("services", namespace, name)
        ports = service["spec"].get("ports") or []
        if port.isdigit():
            named = [one.get("name", "") for one in ports if one["port"] == int(port)]
            if not named:
                raise _unavailable(f'no service port {port} found for service "{name}"')
            port = named[0]
        elif not port and len(ports) == 1:
            port = ports[0].get("name", "")
        if not any(True for _ in self._slices(namespace, name)):
            raise not_found("", "services", name)
        found = list(self._endpoints(namespace, name, port))
        if not found:
            raise _unavailable(f'no endpoints available for service "{name}"')
        return random.choice(found)

    def _endpoints(self, namespace: str, name: str, port: str) -> Iterator[tuple[str, int]]:
        """Yield (IP address, port number) of each ready pod of the service, for the port named `port`."""
        for piece in self._slices(namespace, name):
            numbers = [one["port"] for one in piece.get("ports") or () if (one.get("name") or "") == port]
            for endpoint in piece.get("endpoints") or ():
                reference = endpoint.get("targetRef") or {}
                pod = self._store.get(("", "pods"), namespace, reference.get("name", ""))
                ready = (endpoint.get("conditions") or {}).get("ready", True)
                if pod is not None and ready and (pod.obj.get("status") or {}).get("podIP") in endpoint["addresses"]:
                    yield from ((_address_of(pod.obj), number) for number in numbers)

    def _slices(self, namespace: str, name: str) -> Iterator[Object]:
        """Yield the endpoint slices of a service."""
        for _, _, stored in self._store.walk(("discovery.k8s.io", "endpointslices"), namespace):
            if (stored.obj["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name:
                yield stored.obj

    def _existing(self, plural: str, namespace: str, name: str) -> Object:
        stored = self._store.get(("", plural), namespace, name)
        if stored is None:
            raise not_found("", plural, name)
        return stored.obj

    # --- forwarding -----------------------------------------------------------------------------------------------

    async def _node(self, name: str, path: str, raw: RawRequest) -> Response:
        if raw.method != "GET" or raw.websocket_key:
            raise method_not_allowed()
        answer = await self._nodes.get(self._existing("nodes", "", name), path)
        return Response(media=answer.content_type, stream=_Pieces(answer))

    async def _pass(self, address: Address, path: str, prefix: str, raw: RawRequest) -> Response:
        import aiohttp
        from yarl import URL

        scheme, host, port = address
        url = URL(f"{scheme}://{host}:{port}{path}", encoded=True)
        headers = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in _passed_on(raw, prefix)]
        try:
            answer = await self._nodes.session.request(
                raw.method,
                url,
                headers=headers,
                data=raw.body or None,
                ssl=False,  # as in kube-apiserver: no known authority signs the certificates of pods
                allow_redirects=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unavailable(f"error trying to reach service: {error}") from None
        return _answer(answer, prefix, raw)


def _parts(target: RouteTarget, raw: RawRequest) -> tuple[str, str]:
    """Return the path up to and including `/proxy`, and the rest of the path, which is "" or begins with a slash."""
    words = raw.raw_path.decode("latin-1").split("/")
    at = 8 if target.namespace else 6
    rest = words[at:]
    return "/".join(words[:at]), "/" + "/".join(rest) if rest else ""


def _split(said: str) -> tuple[str, str, str]:
    """Split `[SCHEME:]NAME[:PORT]` into scheme, name and port. Raises `StatusError` 400."""
    match said.split(":"):
        case [name]:
            return "http", name, ""
        case [name, port]:
            return "http", name, port
        case [("http" | "https") as scheme, name, port]:
            return scheme, name, port
    raise bad_request(f'invalid request "{said}": write NAME, NAME:PORT or https:NAME:PORT')


def _address_of(pod: Object) -> str:
    address = (pod.get("status") or {}).get("podIP")
    if not address:
        raise bad_request(f"pod {pod['metadata']['name']} has no address: it does not run yet")
    return str(address)


def _unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message)


def _passed_on(raw: RawRequest, prefix: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the client's headers, except those that are about its connection to this server."""
    for key, value in (*raw.headers.items(), *raw.others):
        if key not in _HOPS and key not in _SOCKET and not key.startswith(b"impersonate-"):
            yield key, value
    yield b"x-forwarded-host", raw.headers.get(b"host", b"")
    yield b"x-forwarded-proto", b"https"
    yield b"x-forwarded-uri", prefix.encode("latin-1")


def _answer(answer: aiohttp.ClientResponse, prefix: str, raw: RawRequest) -> Response:
    headers = []
    for key, value in answer.raw_headers:
        name = key.lower()
        if name == b"location":
            value = _moved(value.decode("latin-1"), prefix, answer).encode("latin-1")
        if name not in _HOPS and name != b"content-type":
            headers.append((name, value))
    media = answer.headers.get("Content-Type", "application/octet-stream")
    if raw.method == "HEAD" or answer.status in _BODILESS:
        answer.release()
        return Response(code=answer.status, media=media, headers=tuple(headers))
    return Response(code=answer.status, media=media, headers=tuple(headers), stream=_Pieces(answer))


def _moved(location: str, prefix: str, answer: aiohttp.ClientResponse) -> str:
    """Return the location of a redirect. If the location is on the same pod, the result is below the proxy's path."""
    where = urlsplit(location)
    if where.netloc not in ("", f"{answer.url.host}:{answer.url.port}") or not where.path.startswith("/"):
        return location
    return where._replace(scheme="", netloc="", path=prefix + where.path).geturl()


class _Pieces:
    """The body of a response, as it arrives."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._answer.content.iter_any())

    async def aclose(self) -> None:
        self._answer.close()


async def _join(address: Address, path: str, raw: RawRequest) -> Response:
    """Join the client's WebSocket with a WebSocket of the pod. After the pod has accepted the handshake, the server
    passes on bytes in both directions without reading them."""
    scheme, host, port = address
    trust: ssl.SSLContext | None = None
    if scheme == "https":
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                host.strip("[]"), port, ssl=trust, limit=NodeTunnel.HEAD_BYTES
            )
    except (OSError, TimeoutError) as error:
        raise _unavailable(f"error trying to reach service: {error}") from None
    lines = [b"%b: %b" % header for header in _passed_on(raw, "")]
    lines += [b"%b: %b" % header for header in raw.others if header[0] in _SOCKET]
    lines += [b"sec-websocket-key: " + raw.websocket_key, b"connection: Upgrade", b"upgrade: websocket"]
    if raw.websocket_protocols:
        lines.append(b"sec-websocket-protocol: " + raw.websocket_protocols)
    head = [f"GET {path} HTTP/1.1".encode("latin-1"), f"host: {host}:{port}".encode("latin-1"), *lines, b"", b""]
    return await answered(reader, writer, b"\r\n".join(head))
