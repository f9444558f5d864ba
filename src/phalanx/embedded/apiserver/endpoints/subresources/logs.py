"""`kubectl logs`: the API server asks the node that runs the pod, and passes on what it says, piece by piece.

The path is the kubelet's, /containerLogs/NAMESPACE/POD/CONTAINER.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from phalanx.embedded.apiserver.apimachinery.meta.status import bad_request, invalid, invalid_value, not_found
from phalanx.embedded.apiserver.endpoints.subresources.node_client import NodeClient
from phalanx.embedded.apiserver.storage.store import Object, Store
from phalanx.embedded.apiserver.transport.options import number
from phalanx.embedded.apiserver.transport.request import Request, Response, text_response

if TYPE_CHECKING:
    import aiohttp

_PASSED_ON = ("follow", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "previous", "limitBytes")


class Logs:
    """Streams container logs from the nodes."""

    def __init__(self, store: Store, nodes: NodeClient) -> None:
        self._store, self._nodes = store, nodes

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
        response = await self._nodes.get(node.obj, f"{path}?{urlencode(wanted)}" if wanted else path)
        return Response(media="text/plain", stream=_Pieces(response))


class _Pieces:
    """The pieces of a log that a node sends, as they come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._response.content.iter_any())

    async def aclose(self) -> None:
        self._response.close()


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
        late = [one["name"] for one in spec.get("ephemeralContainers") or []]
        if wanted not in names + init + late:
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
