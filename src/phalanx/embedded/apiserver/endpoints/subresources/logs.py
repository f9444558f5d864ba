"""Logs of containers for `kubectl logs`: the API server requests them from the node that runs the pod, and passes on
the pieces of the response.

The path on the node is that of the kubelet, /containerLogs/NAMESPACE/POD/CONTAINER.

A node keeps the logs of deleted pods for a while (`phalanx.embedded.node.container.log.kept`). Users can read these
logs with two additions to Kubernetes' API, if they have the right to read logs. `pods/-/log` lists the deleted pods
with kept logs as JSON (no pod can have the name `-`). `pods/NAME/log?uid=UID` returns the log of the pod with that uid,
whether it still exists or not. Pods that ended before their namespace was created are hidden, because an earlier
namespace of another user may have had the same name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import msgspec

from phalanx.embedded.apimachinery.meta.status import (
    StatusError,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
    not_found,
)
from phalanx.embedded.apiserver.endpoints.subresources.node_client import NodeClient
from phalanx.embedded.apiserver.storage.store import Object, Store
from phalanx.embedded.apiserver.transport.options import number
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response, text_response

if TYPE_CHECKING:
    import aiohttp

_PASSED_ON = ("follow", "tailLines", "sinceSeconds", "sinceTime", "timestamps", "previous", "limitBytes")

KEPT = "-"  # stands for a pod's name in the path that lists pods with kept logs


class Logs:
    """Streams container logs from the nodes."""

    def __init__(self, store: Store, nodes: NodeClient) -> None:
        self._store, self._nodes = store, nodes

    async def read(self, namespace: str, name: str, request: HttpRequest) -> Response:
        """Return the log of a container, or the list of kept logs. Raises `StatusError`."""
        if name == KEPT:
            return Response(body=msgspec.json.encode({"items": await self._kept(namespace)}))
        _check_options(name, request)
        stored = self._store.get(("", "pods"), namespace, name)
        uid = request.text("uid")
        if uid and (stored is None or stored.obj["metadata"]["uid"] != uid):
            return await self._read_kept(namespace, name, uid, request)
        if stored is None:
            raise not_found("", "pods", name)
        container = container_of(name, stored.obj, request.text("container"))
        node_name = stored.obj["spec"].get("nodeName")
        if not node_name:
            return text_response("", 204)
        node = self._store.get(("", "nodes"), "", node_name)
        if node is None:
            raise not_found("", "pods", node_name)  # the error of kube-apiserver also calls the missing node a pod
        path = f"/containerLogs/{quote(namespace)}/{quote(name)}/{quote(container)}"
        return await self._stream(node.obj, path, request)

    async def _stream(self, node: Object, path: str, request: HttpRequest) -> Response:
        wanted = {key: request.text(key) for key in _PASSED_ON if request.text(key)}
        response = await self._nodes.get(node, f"{path}?{urlencode(wanted)}" if wanted else path)
        return Response(media="text/plain", stream=_Pieces(response))

    # --- logs of deleted pods -----------------------------------------------------------------------------------------

    async def _kept(self, namespace: str) -> list[Object]:
        """Return a description of each ended pod in the namespace, if a node still keeps the pod's logs. The field
        `node` names this node."""
        made_s = self._made_s(namespace)
        found: list[Object] = []
        for node in self._agents():
            try:
                response = await self._nodes.get(node, f"/keptLogs/{quote(namespace)}")
                items = msgspec.json.decode(await response.read()).get("items") or []
            except (StatusError, msgspec.DecodeError):  # skip a node that does not respond or keeps no logs
                continue
            found += [{**item, "node": node["metadata"]["name"]} for item in items if item["started_s"] >= made_s]
        return found

    async def _read_kept(self, namespace: str, name: str, uid: str, request: HttpRequest) -> Response:
        for item in await self._kept(namespace):
            if (item["pod"], item["uid"]) == (name, uid):
                names = item["containers"]
                container = request.text("container") or (names[0] if len(names) == 1 else "")
                if container not in names:
                    raise bad_request(f"a container name must be specified for pod {name}, choose one of: {names}")
                node = self._store.get(("", "nodes"), "", item["node"])
                if node is not None:
                    path = f"/keptLogs/{quote(namespace)}/{quote(uid)}/{quote(container)}"
                    return await self._stream(node.obj, path, request)
        raise not_found("", "pods", name)

    def _agents(self) -> Iterator[Object]:
        """Yield the nodes that have an agent. Simulated nodes have none."""
        for stored in self._store.scan(("", "nodes")):
            if ((stored.obj.get("status") or {}).get("daemonEndpoints") or {}).get("kubeletEndpoint"):
                yield stored.obj

    def _made_s(self, namespace: str) -> float:
        stored = self._store.get(("", "namespaces"), "", namespace)
        if stored is None:
            raise not_found("", "namespaces", namespace)
        return dt.datetime.fromisoformat(stored.obj["metadata"]["creationTimestamp"]).timestamp()


class _Pieces:
    """The pieces of a log, as they arrive from the node."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._response.content.iter_any())

    async def aclose(self) -> None:
        self._response.close()


def _check_options(name: str, request: HttpRequest) -> None:
    causes = []
    for key, least in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)):
        value = number(request, key)
        if value is not None and value < least:
            bound = "or equal to 0" if least == 0 else "0"
            causes.append(invalid_value(key, value, f"must be greater than {bound}"))
    if request.text("sinceSeconds") and request.text("sinceTime"):
        causes.append(forbidden_field("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if causes:
        raise invalid("", "PodLogOptions", name, causes)


def container_of(pod: str, obj: Object, wanted: str) -> str:
    """Return the container whose log is requested. Raises `StatusError` 400 if the request does not determine one
    container."""
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
