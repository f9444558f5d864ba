"""Convert the changes of `phalanx whatif` to events for a copy of the cluster state.

New objects are read as if they existed, with the code by which the scheduler reads a cluster. The manifests are added
to the listed objects (or to nothing, if the state comes from a snapshot) in caches without a server. A `KubeWorld` on
these caches returns its first events, and is never run. So a Job is read as in the cluster: with its limits, priority
and labels, with the LimitRanges and quotas of its namespace, and with the other members of its gang. Before that, a Job
gets the fields that `phalanx submit` adds, and the defaults of the API server. The last part of the module yields the
events for deleted objects and added nodes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from phalanx.cli.files.manifest import Document
from phalanx.cli.files.policy_file import DIALECTS
from phalanx.cli.study.supposed_objects import complete_object, kind_of, over_existing, require_readable
from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer, key_of
from phalanx.client.kind import JOBS, PRIORITY_CLASSES, Kind
from phalanx.dialects.enabled import DIALECTS as FRAMED
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import FLAVORS, QUEUES
from phalanx.kube.read.node import is_closed
from phalanx.kube.routing.caches import LOOKED_UP, REQUIRED
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.kube_world import KubeWorld
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

Objects = Mapping[Kind, Mapping[str, Object]]


def supposed(documents: Sequence[Document], listed: Objects, book: Cluster, namespace: str) -> Objects:
    """Return the listed objects together with the objects of the documents. An object of a document replaces a listed
    object with the same name. `book`: the cluster state. `namespace`: the namespace of objects that name none. Raises
    PhalanxError with file and line."""
    theirs = _of_dialects(listed)
    found = {kind: dict(listed.get(kind, {})) for kind in dict.fromkeys((*REQUIRED, *LOOKED_UP, *theirs))}
    for number, document in enumerate(documents, 1):
        kind = kind_of(document)
        obj = complete_object(document, kind, book, namespace, number)
        key = key_of(obj)
        if (old := found[kind].get(key)) is not None:
            obj = over_existing(old, obj, kind)
        require_readable(document, kind, obj)
        found[kind][key] = obj
    return found


def told(objects: Objects, book: Cluster, default_queue: str, now_s: float) -> tuple[Event, ...]:
    """Return the events that a scheduler would get first in a cluster with these objects. `book`: the cluster state,
    whose queues and flavors are added if they are not among the objects."""
    nowhere = Connection("http://nowhere.invalid", headers={}, tls=None)  # no request is ever sent on this connection
    caches = {kind: Informer(nowhere, kind) for kind in objects}
    for kind, each in objects.items():
        for obj in each.values():
            caches[kind].observe(obj)
    theirs = _of_dialects(objects)
    settings = KubeSettings(default_queue=default_queue, dialects=DIALECTS if theirs else frozenset())
    world = KubeWorld(nowhere, caches.__getitem__, settings, lambda: now_s)
    world.caches.look_up(dict.fromkeys((*LOOKED_UP, *theirs)))
    world.queues.queues.update({name: queue for name, queue in book.queues.items() if name not in objects[QUEUES]})
    world.queues.flavors.update({name: each for name, each in book.flavors.items() if name not in objects[FLAVORS]})
    return tuple(world.events())


def _of_dialects(objects: Objects) -> list[Kind]:
    """Return the kinds in `objects` that belong to the APIs of other schedulers."""
    kinds = (kind for each in FRAMED.values() for kind in (*each.definition_kinds, *each.answer_kinds))
    return [kind for kind in dict.fromkeys(kinds) if kind in objects and kind not in LOOKED_UP]


def unknown_classes(documents: Iterable[Document], objects: Objects) -> list[str]:
    """Return a note for each Job of the documents whose PriorityClass does not exist among the objects."""
    lines = []
    for document in documents:
        if document.obj["kind"] == JOBS.name:
            name = document.obj["spec"]["template"]["spec"].get("priorityClassName")
            if name and not str(name).startswith("system-") and name not in objects[PRIORITY_CLASSES]:
                where = document.place(("spec", "template", "spec", "priorityClassName"))
                lines.append(
                    f"{where}: the PriorityClass {name} is unknown, so the priority is assumed to be 0; add its file"
                )
    return lines


HOSTNAME = "kubernetes.io/hostname"
MOST_NODES = 100_000
# prefixes of taints by which Kubernetes and clouds mark the condition of a single node
_CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_POOL = re.compile(r"(\d+)(?:x(.+))?")


def deletions(book: Cluster, names: Iterable[str], namespace: str) -> Iterator[Event]:
    """Yield the events that delete these objects. `names`: KIND/NAME of each object. `namespace`: the namespace of jobs
    that are named without one. Raises PhalanxError if an object does not exist."""
    for text in names:
        kind, _, name = text.partition("/")
        match kind.lower().removesuffix("s"):
            case "job":
                yield Finished(_named(text, name if "/" in name else f"{namespace}/{name}", book.jobs), Outcome.DELETED)
            case "node":
                yield from _without_node(book, _named(text, name, nodes_of(book)))
            case "queue":
                yield QueueGone(_named(text, name, book.queues))
            case "flavor":
                yield FlavorGone(_named(text, name, book.flavors))
            case "reservation":
                yield ReservationGone(_named(text, name, book.reservations))
            case _:
                raise PhalanxError(
                    f"--delete {text}: write job/NAMESPACE/NAME, node/NAME, queue/NAME, flavor/NAME or "
                    "reservation/NAME. Nothing was simulated."
                )


def additions(book: Cluster, pools: Sequence[str], like: str | None) -> Iterator[Event]:
    """Yield the events that add nodes. `pools`: each is COUNTxNODE, or COUNT for copies of the node `like`. Raises
    PhalanxError."""
    known = nodes_of(book)
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


def nodes_of(book: Cluster) -> dict[str, Node]:
    return {node.name: node for node in book.columns.nodes if node is not None}


def _another(node: Node, name: str) -> Node:
    """Return a copy of the node with another name. The copy is empty, ready and schedulable. So it lacks the taints of
    a node that is cordoned, not ready or under pressure, or that an autoscaler removes."""
    labels = tuple((key, name if key == HOSTNAME else text) for key, text in node.labels)
    taints = tuple(one for one in node.taints if not (one.key.startswith(_CONDITIONS) or is_closed(one)))
    return replace(node, name=name, labels=labels, taints=taints, unschedulable=False, ready=True, used=())


def _without_node(book: Cluster, name: str) -> Iterator[Event]:
    """Yield the events that remove the node and its pods. Jobs that have started then need other nodes for these
    pods."""
    yield from (Vacated(pod) for pod, (node, _) in book.foreign.items() if node == name)
    for job, record in book.jobs.items():
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
