"""Represent the nodes of a worker as nodes of the manager, so that the core can place jobs on them as on the manager's
own nodes.

A node of a worker has the name `CLUSTER:NODE`, which is not a valid name of a Node in Kubernetes. This node has the
labels and taints of the node in the worker, and in addition the label and the taint `phalanx.dev/cluster`. Only pods
that tolerate this taint by its name are placed on the node, that is, pods of jobs that may be sent to other clusters.
The allocatable amounts of this node are those that the pods of the worker's own jobs leave free. The core charges the
jobs of this manager to the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from phalanx.client.quantity import QuantityError
from phalanx.clusters.copies.content import JOB
from phalanx.dialects.frame.dialect import CLUSTER
from phalanx.kube.gang.spec.elsewhere import ANY_NODE, node_name
from phalanx.kube.read.node import read_node
from phalanx.kube.read.template.pod_shape import pod_requests
from phalanx.model.node import HARD, Node, Taint
from phalanx.model.pod import PODS, amounts

Object = Mapping[str, Any]
_OVER = ("Succeeded", "Failed")
_UNBOUNDED = 2**40  # the assumed amount of every resource, if a worker does not allow its nodes to be listed


def mirrored(
    cluster: str, nodes: Iterable[Object], pods: Iterable[Object], sent: frozenset[str], *, reachable: bool
) -> dict[str, Node]:
    """Return the nodes of a worker by name. `sent`: the uids of the sent jobs, and of their copies.
    `reachable`: True if the worker can be reached. If it is False, no further job is placed on the worker's nodes."""
    used = used_by_node(pods, sent)
    found = {}
    for obj in nodes:
        node = read_node(dict(obj))
        left = dict(node.allocatable)
        for resource, amount in used.get(node.name, {}).items():
            left[resource] = max(0, left.get(resource, 0) - amount)
        mirror = _of_cluster(cluster, replace(node, allocatable=amounts(left), group="", protected=True))
        found[mirror.name] = mirror if reachable else replace(mirror, ready=False)
    return found


def unbounded(cluster: str, resources: Iterable[str], *, reachable: bool) -> dict[str, Node]:
    """Return one node with practically unlimited amounts, for a worker that does not allow its nodes to be listed. Then
    only quotas limit how many jobs the worker gets. `resources`: the names of resources that jobs request."""
    has = dict.fromkeys((*resources, "cpu", "memory", PODS), _UNBOUNDED)
    node = whole_cluster(cluster, has, reachable=reachable)
    return {node.name: node}


def whole_cluster(cluster: str, has: Mapping[str, int], *, reachable: bool) -> Node:
    """Return one node for all nodes of a worker."""
    return _of_cluster(cluster, Node(name=ANY_NODE, allocatable=amounts(has), ready=reachable, protected=True))


def _of_cluster(cluster: str, node: Node) -> Node:
    return replace(
        node,
        name=node_name(cluster, node.name),
        labels=tuple(sorted({**dict(node.labels), CLUSTER: cluster}.items())),
        taints=(*node.taints, Taint(CLUSTER, cluster, by_name=True)),
        devices=(),
        zones=(),
    )


def used_by_node(pods: Iterable[Object], sent: frozenset[str] = frozenset()) -> dict[str, dict[str, int]]:
    """Return node -> the sum of the requests of the pods on the node. Pods of jobs whose uid is in `sent` do not
    count."""
    found: dict[str, dict[str, int]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        over = (pod.get("status") or {}).get("phase") in _OVER
        if not node or over or not sent.isdisjoint(_jobs_of(pod)):
            continue
        total = found.setdefault(node, {})
        for resource, amount in _requests(pod):
            total[resource] = total.get(resource, 0) + amount
    return found


def takes_pods(node: Node) -> bool:
    """Return True if pods can be placed on the node."""
    cordoned = any(taint.effect in HARD and taint.key.startswith("node.kubernetes.io/") for taint in node.taints)
    return node.ready and not node.unschedulable and not cordoned


def _jobs_of(pod: Object) -> Iterator[str]:
    """Yield the uids of the jobs to which the pod may belong: the uid of the pod itself, of its controller, and of the
    job of which it is a copy."""
    meta = pod["metadata"]
    yield str(meta.get("uid"))
    yield from (str(owner["uid"]) for owner in meta.get("ownerReferences") or () if owner.get("controller"))
    if (said := (meta.get("labels") or {}).get(JOB)) is not None:
        yield str(said)


def _requests(pod: Object) -> Iterable[tuple[str, int]]:
    try:
        return pod_requests(pod["spec"], pod.get("status") or {})
    except QuantityError:
        return ()
