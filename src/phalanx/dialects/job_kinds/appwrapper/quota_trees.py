"""Translate MCAD's quota trees (kind QuotaSubtree) to Phalanx Queues.

A node of a quota tree is a queue with quotas for resources, which its field `quotas.requests` sets. These amounts are
the guarantee of the node. With `hardLimit` they are also the limit of the node; without `hardLimit` the node may borrow
unused quota of its siblings. The root of a tree never borrows.

An AppWrapper may have one label for each tree. The label's key is the name of the tree, and its value is the
AppWrapper's node. Without this label, the AppWrapper is in the tree's node `default`. Phalanx charges an AppWrapper to
one tree only: the first tree by name for which the AppWrapper has a label, or else the first tree by name. If the
cluster has no quota tree, AppWrappers are in the default queue.

Source: pkg/controller/quota/quotaforestmanager of v1.40.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.dialects.frame.dialect import Claim, Definitions, Objects, Said
from phalanx.dialects.frame.pod_requests import amounts
from phalanx.dialects.job_kinds.appwrapper import kinds
from phalanx.model.queue import Queue, Quota


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaTrees(Definitions):
    """All quota trees of the cluster. `nodes`: name of a tree -> the names of its nodes."""

    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)


def define(objects: Objects) -> QuotaTrees:
    """Translate the quota trees in these objects: each node becomes a Phalanx Queue."""
    found: dict[str, dict[str, Queue]] = {}
    parts = [objects.get(kind, {}) for kind in (kinds.QUOTA_SUBTREES, kinds.IBM_QUOTA_SUBTREES)]
    for part in (by_key[key] for by_key in parts for key in sorted(by_key)):
        meta, spec = part.get("metadata") or {}, part.get("spec") or {}
        tree = (meta.get("labels") or {}).get(kinds.TREE)
        if tree:
            nodes = found.setdefault(str(tree), {})
            for queue in _nodes(str(tree), str(spec.get("parent") or ""), spec):
                nodes.setdefault(queue.name, queue)
    queues = tuple(queue for nodes in found.values() for queue in nodes.values())
    return QuotaTrees(queues=queues, nodes={tree: frozenset(nodes) for tree, nodes in found.items()})


def claim(defined: QuotaTrees, said: Said) -> Claim | None:
    """Return the Phalanx Queue of an AppWrapper of the first generation; None if `said` comes from another object."""
    labels = kinds.labels_of(said.queue)
    if labels is None:
        return None
    trees = sorted(defined.nodes)
    if not trees:
        return Claim(queue="")
    tree = next((each for each in trees if each in labels), trees[0])
    return Claim(queue=kinds.node_queue(tree, labels.get(tree, kinds.DEFAULT_NODE)))


# --- internal ---------------------------------------------------------------------------------------------------------


def _nodes(tree: str, parent: str, spec: Mapping[str, Any]) -> Iterator[Queue]:
    for child in spec.get("children") or ():
        name, quotas = str(child.get("name") or ""), child.get("quotas") or {}
        if not name:
            continue
        asked = tuple(sorted(amounts(quotas.get("requests")).items()))
        hard = bool(quotas.get("hardLimit")) or not parent
        quota = Quota() if quotas.get("disabled") else Quota(guaranteed=asked, limit=asked if hard else ())
        above = kinds.node_queue(tree, parent) if parent and parent != name else ""
        yield Queue(name=kinds.node_queue(tree, name), parent=above, quotas=(quota,))
