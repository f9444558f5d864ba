"""Convert changes to events: the deleted objects and added nodes that are given as options of `phalanx whatif`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from phalanx.errors import PhalanxError
from phalanx.kube.read.node import is_closed
from phalanx.model.event import (
    Event,
    Finished,
    FlavorGone,
    NodeGone,
    NodeSeen,
    Opened,
    QueueGone,
    ReservationGone,
    Vacated,
)
from phalanx.model.job import Outcome, Phase
from phalanx.model.node import Node
from phalanx.state.cluster import Cluster

HOSTNAME = "kubernetes.io/hostname"
MOST_NODES = 100_000
# prefixes of the taints by which Kubernetes and cloud providers mark the condition of a single node
_CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_POOL = re.compile(r"(\d+)(?:x(.+))?")


def deletions(cluster: Cluster, names: Iterable[str], namespace: str) -> Iterator[Event]:
    """Yield the events that delete these objects. `names`: KIND/NAME of each object. `namespace`: the namespace of jobs
    whose name has no namespace. Raises PhalanxError if an object does not exist."""
    for text in names:
        kind, _, name = text.partition("/")
        match kind.lower().removesuffix("s"):
            case "job":
                yield Finished(
                    _named(text, name if "/" in name else f"{namespace}/{name}", cluster.jobs), Outcome.DELETED
                )
            case "node":
                yield from _without_node(cluster, _named(text, name, nodes_of(cluster)))
            case "queue":
                yield QueueGone(_named(text, name, cluster.queues))
            case "flavor":
                yield FlavorGone(_named(text, name, cluster.flavors))
            case "reservation":
                yield ReservationGone(_named(text, name, cluster.reservations))
            case _:
                raise PhalanxError(
                    f"--delete {text}: write job/NAMESPACE/NAME, node/NAME, queue/NAME, flavor/NAME or "
                    "reservation/NAME. Nothing was simulated."
                )


def additions(cluster: Cluster, pools: Sequence[str], like: str | None) -> Iterator[Event]:
    """Yield the events that add nodes. `pools`: texts of the form COUNTxNODE, or COUNT for copies of the node `like`.
    Raises PhalanxError."""
    known = nodes_of(cluster)
    taken = set(known)
    for text in pools:
        found = _POOL.fullmatch(text)
        model = (found[2] or like) if found else None
        if found is None or model is None or not 1 <= int(found[1]) <= MOST_NODES:
            raise PhalanxError(
                f"--add-nodes {text}: write the number and an existing node: --add-nodes 4xNODE, or --add-nodes 4 "
                "--like "
                f"NODE (from 1 to {MOST_NODES}). Nothing was simulated."
            )
        node = known[_named(f"node/{model}", model, known)]
        number = 0
        for _ in range(int(found[1])):
            while (name := f"{node.name}-more-{number}") in taken:
                number += 1
            taken.add(name)
            yield NodeSeen(_another(node, name))


def nodes_of(cluster: Cluster) -> dict[str, Node]:
    return {node.name: node for node in cluster.columns.nodes if node is not None}


def _another(node: Node, name: str) -> Node:
    """Return a copy of the node with another name. The copy is empty, ready and schedulable. It does not get the taints
    that mark a cordoned node, a node that is not ready or under pressure, or a node that an autoscaler removes."""
    labels = tuple((key, name if key == HOSTNAME else text) for key, text in node.labels)
    taints = tuple(one for one in node.taints if not (one.key.startswith(_CONDITIONS) or is_closed(one)))
    return replace(node, name=name, labels=labels, taints=taints, unschedulable=False, ready=True, used=())


def _without_node(cluster: Cluster, name: str) -> Iterator[Event]:
    """Yield the events that remove the node and its pods. In the simulation, started jobs then need other nodes for
    these pods."""
    yield from (Vacated(pod) for pod, (node, _) in cluster.foreign.items() if node == name)
    for job, record in cluster.jobs.items():
        lost = tuple(slot for slot, node in record.placements.items() if node == name)
        if lost and record.phase is not Phase.QUEUED:
            yield Opened(job, lost)
    yield NodeGone(name)


def _named(text: str, name: str, known: Mapping[str, object]) -> str:
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, 3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known names: {', '.join(sorted(known)[:8]) or 'none'}."
    raise PhalanxError(f"{text}: there is no {name!r}. Nothing was simulated. {hint}")
