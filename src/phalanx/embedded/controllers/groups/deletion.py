"""The group of controllers that delete objects, or delay their deletion."""

from __future__ import annotations

from phalanx.client.connection import Connection
from phalanx.client.kind import JOBS, NAMESPACES
from phalanx.embedded.controllers.groups.group import ControllerGroup
from phalanx.embedded.controllers.groups.settings import Settings
from phalanx.embedded.controllers.lifetime.garbage import GarbageCollector
from phalanx.embedded.controllers.lifetime.namespace import AccountController, NamespaceController
from phalanx.embedded.controllers.lifetime.pod_gc import PodCollector, TtlController
from phalanx.embedded.controllers.lifetime.pod_group_protection import PodGroupProtection
from phalanx.embedded.controllers.runtime.calls import Calls, Clock
from phalanx.embedded.controllers.workloads.volume_protection import VolumeProtection


def deletion_group(connection: Connection, calls: Calls, settings: Settings, clock: Clock) -> ControllerGroup:
    """Return the controllers that delete the content of terminating namespaces, finished Jobs after their time to live,
    objects without an owner, and surplus pods; and the controllers that delay the deletion of objects in use."""
    namespaces = NamespaceController(calls, again_s=settings.namespace_again_s, clock=clock)
    accounts = AccountController(calls, settings.root_ca)
    ttl = TtlController(calls, clock=clock)
    garbage = GarbageCollector(connection, calls)
    leftovers = PodCollector(calls, most_finished=settings.most_finished_pods, clock=clock)
    return ControllerGroup(
        queued=(namespaces, accounts, ttl, VolumeProtection(calls), PodGroupProtection(calls)),
        endless={"garbage": garbage.run, "old pods": leftovers.run},
        queues=((JOBS, ttl.queue), (NAMESPACES, namespaces.queue)),
    )
