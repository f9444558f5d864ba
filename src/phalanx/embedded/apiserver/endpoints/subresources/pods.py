"""The subresources of pods that do more than write a field: binding to a node, and eviction.

A client uses them by creating another object (a Binding or an Eviction) under the pod's path. The server does not store
these objects.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from phalanx.embedded.apimachinery.meta import objectmeta
from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request, conflict, not_found
from phalanx.embedded.apiserver.admission.chain import copy_topology_labels
from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.endpoints.decoding import Intent
from phalanx.embedded.apiserver.endpoints.delete import DeleteOptions, Deleter, check_preconditions, delete_options
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter, as_revision, other_uid, other_version
from phalanx.embedded.apiserver.registry.kinds.policy import disruption
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.storage.store import Object, Store, Stored
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response

PODS, NODES = ("", "pods"), ("", "nodes")
BUDGETS = ("policy", "poddisruptionbudgets")
BINDING = Resource(
    group="",
    version="v1",
    kind="Binding",
    plural="bindings",
    namespaced=True,
    verbs=("create",),
    schema_name="io.k8s.api.core.v1.Binding",
)
EVICTION = Resource(
    group="policy",
    version="v1",
    kind="Eviction",
    plural="evictions",
    namespaced=True,
    verbs=("create",),
    schema_name="io.k8s.api.policy.v1.Eviction",
)
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class PodActions:
    """Handles a POST to a subresource of a pod, or to the collection of bindings."""

    def __init__(self, store: Store, writer: ObjectWriter, deleter: Deleter) -> None:
        self._store, self._writer, self._deleter = store, writer, deleter

    async def act(self, target: RouteTarget, body: Any, intent: Intent, request: HttpRequest) -> Response:
        """Bind or evict the pod, and return the response. Raises `StatusError`."""
        match target.sub or target.resource.kind:
            case "binding" | "Binding":
                return await self._bind(target, self._writer.checked(BINDING, body, intent), intent, request)
            case "eviction":
                # accept an Eviction of policy/v1beta1, which has the same fields
                if body.get("apiVersion") == f"{EVICTION.group}/v1beta1":
                    body = {**body, "apiVersion": EVICTION.api_version}
                return await self._evict(target, self._writer.checked(EVICTION, body, intent), intent, request)
        raise StatusError(404, "NotFound", "the server could not find the requested resource", details={})

    async def _bind(self, target: RouteTarget, body: Object, intent: Intent, request: HttpRequest) -> Response:
        meta = body.get("metadata") or {}
        name = target.name or meta.get("name", "")
        if meta.get("name", "") != name:
            raise bad_request("name in URL does not match name in Binding object")
        if (to := body.get("target") or {}).get("kind") == "Node":
            node = self._store.get(NODES, "", to.get("name", ""))
            copy_topology_labels(body, node.obj if node is not None else None)
        body = await self._writer.admitted(target, BINDING, body, intent)
        _check_node_target(body.get("target") or {})
        stored = self._pod(target.namespace, name)
        _check_bindable(target.resource, stored.obj, name, meta)
        if not intent.dry_run:
            await self._store.put(PODS, target.namespace, name, bound(stored, body))
        return answers.value(request, SUCCESS, 201)

    async def _evict(self, target: RouteTarget, body: Object, intent: Intent, request: HttpRequest) -> Response:
        if not disruption.eviction_name_matches(target.name, body):
            raise bad_request("name in URL does not match name in Eviction object")
        body = await self._writer.admitted(target, EVICTION, body, intent)
        stored = self._pod(target.namespace, target.name)
        options = replace(delete_options(request, body.get("deleteOptions") or {}), user=None)
        budget = disruption.allow(stored.obj, self._budgets(target.namespace), objectmeta.now_text())
        if not (intent.dry_run or options.dry_run):
            if budget is not None:
                name = budget["metadata"]["name"]
                await self._store.put(BUDGETS, target.namespace, name, as_revision(budget))
            await self._leave(
                RouteTarget(resource=target.resource, namespace=target.namespace, name=target.name), options
            )
        return answers.value(request, SUCCESS, 201)

    async def _leave(self, target: RouteTarget, options: DeleteOptions) -> None:
        """Write a condition with the reason of the eviction into the pod's status, and delete the pod. These are two
        changes in one step of the event loop."""
        stored = self._pod(target.namespace, target.name)
        check_preconditions(target.resource, target.name, stored, options)
        if (told := disruption.evicted(stored.obj, objectmeta.now_text())) is None:
            await self._deleter.delete(target, options)
            return
        said = self._store.put(PODS, target.namespace, target.name, told)
        await self._deleter.delete(target, replace(options, version=""))
        with suppress(StatusError):  # if the disk is full, delete the pod without the condition
            await said

    def _budgets(self, namespace: str) -> list[Object]:
        """Return the disruption budgets of the namespace in their newest state, which counts evictions that are not on
        the disk yet."""
        names = [name for _, name, _ in self._store.walk(BUDGETS, namespace)]
        heads = [self._store.head(BUDGETS, namespace, name) for name in names]
        return [one.obj for one in heads if one is not None]

    def _pod(self, namespace: str, name: str) -> Stored:
        stored = self._store.head(PODS, namespace, name)
        if stored is None:
            raise not_found("", "pods", name)
        return stored


def _check_node_target(target: Object) -> None:
    kind = target.get("kind", "")
    if kind not in ("Node", ""):
        raise StatusError(500, "", f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise StatusError(500, "", "target.name: Required value")


def _check_bindable(resource: Resource, pod: Object, name: str, binding: Object) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    if binding.get("uid") and binding["uid"] != meta["uid"]:
        raise conflict("", "pods", name, other_uid(resource, meta, binding["uid"]))
    if (version := binding.get("resourceVersion")) and version != meta["resourceVersion"]:
        raise conflict("", "pods", name, other_version(resource, meta, version))
    if meta.get("deletionTimestamp"):
        raise conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def bound(stored: Stored, binding: Object) -> Object:
    """Return the pod with its node, the binding's annotations and labels, and the condition PodScheduled. All other
    fields are shared with `stored`."""
    pod = stored.obj
    meta = dict(pod["metadata"])
    for field in ("annotations", "labels"):
        if extra := (binding.get("metadata") or {}).get(field):
            meta[field] = (meta.get(field) or {}) | extra
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": objectmeta.now_text(),
    }
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or [] if one.get("type") != "PodScheduled"]
    return pod | {
        "metadata": meta,
        "spec": pod["spec"] | {"nodeName": binding["target"]["name"]},
        "status": status | {"conditions": [*others, scheduled]},
    }
