"""Convert the new objects of `phalanx whatif` to events for a copy of the cluster state.

The objects are read as if they existed, with the code by which the scheduler reads a cluster. The manifests are added
to the listed objects (or to nothing, if the state comes from a snapshot) in caches without a server. A `KubeWorld` (the
scheduler's interface to a cluster) on these caches returns its first events, and is never run. So a Job is read as in
the cluster: with its limits, priority and labels, with the LimitRanges and quotas of its namespace, and with the other
members of its gang. Before it is read, a Job gets the fields that `phalanx submit` adds, and the defaults of the API
server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from phalanx.cli.files.manifest import Document
from phalanx.cli.files.policy_file import DIALECTS
from phalanx.cli.study.supposed_objects import complete_object, kind_of, over_existing, require_readable
from phalanx.client.connection import Connection, Object
from phalanx.client.informer import Informer, key_of
from phalanx.client.kind import JOBS, PRIORITY_CLASSES, Kind
from phalanx.dialects.enabled import DIALECTS as FRAMED
from phalanx.kube.install.definitions import FLAVORS, QUEUES
from phalanx.kube.routing.caches import LOOKED_UP, REQUIRED
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.model.event import Event
from phalanx.state.cluster import Cluster

Objects = Mapping[Kind, Mapping[str, Object]]


def supposed(documents: Sequence[Document], listed: Objects, book: Cluster, namespace: str) -> Objects:
    """Return the listed objects together with the objects of the documents. An object of a document replaces a listed
    object with the same name. `book`: the cluster state. `namespace`: the namespace of objects without a namespace.
    Raises PhalanxError with file and line."""
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
    nowhere = Connection("http://nowhere.invalid", headers={}, tls=None)  # this connection never sends a request
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
    """Return a note for each Job of the documents whose PriorityClass is not in `objects`."""
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
