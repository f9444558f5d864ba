"""The manager, which is the cluster whose jobs are sent to other clusters. `SendingCluster` also decides whether this
manager has made a copy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from phalanx.client.connection import Connection
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import NAMESPACES, PODS, Kind
from phalanx.clusters.copies import content
from phalanx.clusters.copies.content import Sent
from phalanx.clusters.copies.sendable import SENDABLE, Key
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS, MultiKueue, configuration
from phalanx.kube.read.labels import FIELD_MANAGER
from phalanx.kube.world.capacity_sources import ManagerWorld

_OWN = "kube-system"  # the namespace whose uid identifies a cluster

Object = dict[str, Any]


class SendingCluster:
    """The manager and its jobs. `api`, `informers`: the manager's API and its caches. `uid`: the uid of this cluster,
    by which copies refer to their manager; it is known after `begin`. `world`: the manager's scheduler interface, to
    which events about sent jobs are reported."""

    def __init__(self, api: Connection, informers: Callable[[Kind], Informer]) -> None:
        self.api, self.informers, self.uid, self.world = api, informers, "", ManagerWorld()
        self._followed: set[Kind] = set()  # the kinds to whose changes `follow` has subscribed

    async def begin(self) -> None:
        """Wait until the manager's Jobs and the uid of its cluster are known."""
        spaces = self.informers(NAMESPACES)
        await asyncio.gather(spaces.synced.wait(), *(self.informers(kind).synced.wait() for kind in self.kinds()))
        created = asyncio.Event()  # set when the API server has created the namespace, soon after its start
        spaces.subscribe(lambda _: created.set() if _OWN in spaces.objects else None)
        await created.wait()
        self.uid = str(spaces.objects[_OWN]["metadata"]["uid"])

    def kinds(self) -> list[Kind]:
        """Return the kinds of jobs that can be sent."""
        return [*(kind for kind in self.world.kinds() if kind in SENDABLE), PODS]

    def follow(self, changed: Callable[[Change], None]) -> None:
        """Subscribe to the changes of kinds that are not followed yet."""
        for kind in self.kinds():
            if kind not in self._followed:
                self._followed.add(kind)
                self.informers(kind).subscribe(changed)

    def follow_clusters(self, changed: Callable[[Change], None]) -> None:
        """Subscribe to the changes of the MultiKueueClusters."""
        self.informers(MULTI_CLUSTERS).subscribe(changed)

    def clusters(self) -> Mapping[str, Object]:
        return self.informers(MULTI_CLUSTERS).objects

    def settings(self) -> MultiKueue:
        """Return the settings of MultiKueue that apply now."""
        return configuration(self.informers(CONFIGURATIONS).objects).multi

    def job(self, key: Key) -> Object | None:
        """Return the newest known state of the job; None if it does not exist."""
        return self.informers(key.kind).objects.get(key.name) if key.kind in self._followed else None

    def has_made(self, copied: Object) -> bool:
        """Return whether this manager has made the copy."""
        return content.is_of(copied, self.uid)

    def is_present(self, copied: Object, sent: Sent) -> bool:
        """Return whether this manager made the copy, and made it for the latest start."""
        return self.has_made(copied) and content.is_of_start(copied, sent.uid, sent.start)

    async def write_status(self, key: Key, job: Object, status: Object) -> None:
        meta = job["metadata"]
        head = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {"metadata": head, "status": status}
        after = await self.api.patch(
            key.kind, meta["name"], body, meta["namespace"], subresource="status", fieldManager=FIELD_MANAGER
        )
        self.informers(key.kind).observe(after)
