"""`kubectl logs`: the API server asks the node that runs the pod, and passes on what it says, piece by piece.

The node's address is in its status (InternalIP, kubeletEndpoint), as in a real cluster; the path is the kubelet's
(/containerLogs/NAMESPACE/POD/CONTAINER). The server shows the node a token from a file that both can read.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from phalanx.embedded.apiserver.apimachinery.meta.status import ApiError, bad_request, invalid, invalid_value, not_found
from phalanx.embedded.apiserver.storage.settings import Settings
from phalanx.embedded.apiserver.storage.store import Object, Store
from phalanx.embedded.apiserver.transport.options import number
from phalanx.embedded.apiserver.transport.request import Request, Response, text_response

if TYPE_CHECKING:
    import aiohttp  # at run time when the first log is read: importing it is a third of the server's start

_PASSED_ON = ("follow", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "previous", "limitBytes")
_CONNECT_TIMEOUT_S = 10.0


class Logs:
    """Streams container logs from the nodes. `close` it."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._session: aiohttp.ClientSession | None = None

    async def read(self, namespace: str, name: str, request: Request) -> Response:
        """Raises `ApiError`."""
        stored = self._store.get(("", "pods"), namespace, name)
        if stored is None:
            raise not_found("", "pods", name)
        _check_options(name, request)
        container = container_of(name, stored.obj, request.text("container"))
        node_name = stored.obj["spec"].get("nodeName")
        if not node_name:
            return text_response("", 204)
        node = self._store.get(("", "nodes"), "", node_name)
        if node is None:
            raise not_found("", "nodes", node_name)
        wanted = {key: request.text(key) for key in _PASSED_ON if request.text(key)}
        path = f"/containerLogs/{quote(namespace)}/{quote(name)}/{quote(container)}"
        return await self._ask(node.obj, f"{path}?{urlencode(wanted)}" if wanted else path)

    async def _ask(self, node: Object, path: str) -> Response:
        import aiohttp

        address, port = endpoint_of(node)
        failure: Exception | None = None
        for scheme in ("https", "http"):
            try:
                response = await self._open(f"{scheme}://{address}:{port}{path}", scheme)
            except aiohttp.ClientConnectorCertificateError as error:
                failure = error  # not the node's: nothing is sent to whoever answers there
                break
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                failure = error
                continue
            if response.status != 200:
                text = await response.text()
                response.release()
                raise refused(response.status, text)
            return Response(media="text/plain", stream=_Pieces(response))
        raise ApiError(500, "InternalError", f'Get "https://{address}:{port}{path}": {failure}')

    async def _open(self, url: str, scheme: str) -> aiohttp.ClientResponse:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        token = self._settings.kubelet_token.read_text().strip()
        trust: ssl.SSLContext | bool = True
        if scheme == "https":
            trust = ssl.create_default_context(cafile=str(self._settings.ca_certificate))
        return await self._session.get(url, headers={"Authorization": f"Bearer {token}"}, ssl=trust)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class _Pieces:
    """What a node sends, as it comes."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._response.content.iter_any())

    async def aclose(self) -> None:
        self._response.close()


def refused(code: int, text: str) -> ApiError:
    reasons = {400: "BadRequest", 404: "NotFound", 401: "Unauthorized", 403: "Forbidden"}
    return ApiError(code, reasons.get(code, "InternalError"), text.strip() or f"the node answered {code}")


def endpoint_of(node: Object) -> tuple[str, int]:
    """Where the node's agent listens. Raises `ApiError` 500 when its status does not say."""
    status = node.get("status") or {}
    addresses = [one["address"] for one in status.get("addresses") or [] if one.get("type") == "InternalIP"]
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    if not addresses or not port:
        name = node["metadata"]["name"]
        raise ApiError(500, "InternalError", f"no preferred addresses found; known addresses: [] (node {name})")
    address = addresses[0]
    return (f"[{address}]" if ":" in address else address), port


def _check_options(name: str, request: Request) -> None:
    causes = []
    for key, least in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)):
        value = number(request, key)
        if value is not None and value < least:
            bound = "or equal to 0" if least == 0 else "0"
            causes.append(invalid_value(key, value, f"must be greater than {bound}"))
    if causes:
        raise invalid("", "PodLogOptions", name, causes)


def container_of(pod: str, obj: Object, wanted: str) -> str:
    """The container whose log is meant. Raises `ApiError` 400 when that is not clear."""
    spec = obj["spec"]
    names = [one["name"] for one in spec.get("containers") or []]
    init = [one["name"] for one in spec.get("initContainers") or []]
    if wanted:
        if wanted not in names + init:
            raise bad_request(f"container {wanted} is not valid for pod {pod}")
        return wanted
    default = (obj["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in names:
        return str(default)
    if len(names) == 1:
        return str(names[0])
    shown = f"a container name must be specified for pod {pod}, choose one of: [{' '.join(names)}]"
    if init:
        shown += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(shown)
