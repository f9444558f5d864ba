"""The API metrics.k8s.io: the present resource usage of pods and nodes, for `kubectl top`.

The server stores no metrics. It requests /stats/summary from each node with an agent, which reports the usage of every
container as its control group measures it. The response has the same form as that of metrics-server. A node that does
not respond, or that is only simulated, has no metrics, and kubectl reports that.

Source: k8s.io/metrics/pkg/apis/metrics/v1beta1, kubelet/pkg/apis/stats/v1alpha1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.selectors import predicate
from phalanx.embedded.apimachinery.meta.status import StatusError, not_found
from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.endpoints.subresources.node_client import NodeClient
from phalanx.embedded.apiserver.registry.metrics import GROUP
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.storage.store import Store, Stored, encode
from phalanx.embedded.apiserver.transport.options import list_options
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response

if TYPE_CHECKING:
    import aiohttp

_log = logging.getLogger(__name__)
_ANSWER_S = 5.0
Summary = Mapping[str, Any]


class Metrics:
    """Handles requests that get or list metrics."""

    def __init__(self, store: Store, nodes: NodeClient) -> None:
        self._store, self._nodes = store, nodes

    async def show(self, verb: str, target: RouteTarget, request: HttpRequest) -> Response:
        """Return the metrics that a request asks for. Raises `StatusError`."""
        resource = target.resource
        if verb == "get":
            owner = self._store.get(("", resource.plural), target.namespace, target.name)
            found = await self._of(resource, [owner.obj] if owner is not None else [])
            if not found:
                shown = f"{target.namespace}/{target.name}" if target.namespace else target.name
                raise not_found(GROUP, resource.plural, shown)
            return answers.one(resource, request, found[0])
        options = list_options(request, watch=False)
        matches = predicate(resource, options.label_selector, options.field_selector)
        walked = self._store.walk(("", resource.plural), target.namespace or (None if resource.namespaced else ""))
        owners = [stored.obj for _, _, stored in walked if matches is None or matches(stored.obj)]
        return await answers.many(resource, request, await self._of(resource, owners), {})

    async def _of(self, resource: Resource, owners: Iterable[Object]) -> list[Stored]:
        """Return the metrics of `owners`, which are pods or nodes. A pod or node without metrics is left out."""
        by_node: dict[str, list[Object]] = {}
        for owner in owners:
            name = owner["spec"].get("nodeName") if resource.namespaced else owner["metadata"]["name"]
            by_node.setdefault(name or "", []).append(owner)
        asked = {name: node.obj for name in by_node if (node := self._store.get(("", "nodes"), "", name)) is not None}
        summaries = await asyncio.gather(*(self._summary(node) for node in asked.values()))
        found = []
        for name, summary in zip(asked, summaries, strict=True):
            if summary is not None:
                say = _pods if resource.namespaced else _nodes
                found += [Stored(0, encode(one), one) for one in say(resource, by_node[name], summary)]
        return found

    async def _summary(self, node: Object) -> Summary | None:
        """Return the node's summary; None if the node does not respond."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                response: aiohttp.ClientResponse = await self._nodes.get(node, "/stats/summary")
                async with response:
                    summary: Summary = msgspec.json.decode(await response.read())
                    return summary
        except (StatusError, OSError, TimeoutError, msgspec.DecodeError) as error:
            _log.debug("no metrics of node %s: %s", node["metadata"]["name"], error)
            return None


def _nodes(resource: Resource, owners: Iterable[Object], summary: Summary) -> Iterable[Object]:
    for owner in owners:
        yield {**_head(resource, owner), **_when(summary["node"]), "usage": _usage(summary["node"])}


def _pods(resource: Resource, owners: Iterable[Object], summary: Summary) -> Iterable[Object]:
    told = {one["podRef"]["uid"]: one for one in summary["pods"]}
    for owner in owners:
        pod = told.get(owner["metadata"]["uid"])
        if pod is not None and pod["containers"]:
            used = [{"name": one["name"], "usage": _usage(one)} for one in pod["containers"]]
            yield {**_head(resource, owner), **_when(pod["containers"][0]), "containers": used}


def _head(resource: Resource, owner: Object) -> Object:
    meta = owner["metadata"]
    kept = ("name", "namespace", "labels", "creationTimestamp")
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {key: meta[key] for key in kept if meta.get(key)},
    }


def _when(stats: Mapping[str, Any]) -> Object:
    return {"timestamp": stats["cpu"]["time"], "window": f"{stats['windowSeconds']:.3f}s"}


def _usage(stats: Mapping[str, Any]) -> Object:
    memory_kib = stats["memory"]["workingSetBytes"] // 1024
    return {"cpu": f"{stats['cpu']['usageNanoCores']}n", "memory": f"{memory_kib}Ki"}
