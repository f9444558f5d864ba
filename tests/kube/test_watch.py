"""`kube/routing/watch.py`: the routing of all watched kinds, in the order in which decisions need them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, NODES, PODS, RESOURCE_QUOTAS, VOLUME_CLAIMS, Kind
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.spec.elsewhere import Choose, ClusterChoice, Sought, any_cluster
from phalanx.kube.install.definitions import FLAVORS, QUEUES, RESERVATIONS
from phalanx.kube.routing.caches import ObjectCaches
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.routing.watch import ClusterWatch
from phalanx.model.event import Event, NodeSeen, QueueSeen
from tests.kube.double import Api, Caches, job, node, pod
from tests.kube.gang.recorded_effects import RecordedEffects
from tests.kube.test_quota_headroom import quota


@dataclass
class Watched:
    """A watch of every kind on the double. `told`: events for the core. `woken`: how often it was woken. `invalid`: the
    names of unreadable objects, with the error."""

    api: Api = field(default_factory=Api)
    gangs: dict[str, GangLifecycle] = field(default_factory=dict)
    told: list[Event] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)
    woken: list[None] = field(default_factory=list)
    invalid: list[tuple[str, str]] = field(default_factory=list)
    choose: Choose = any_cluster

    def __post_init__(self) -> None:
        self.informers = Caches(self.api)
        self.effects = RecordedEffects()
        self.watch = self.over(self.informers)

    def over(self, informers: Callable[[Kind], Any], *served: Kind) -> ClusterWatch:
        caches = ObjectCaches(informers, KubeSettings())
        caches.served = frozenset(served or (RESOURCE_QUOTAS, FLAVORS, RESERVATIONS))
        return ClusterWatch(
            caches,
            lambda: 100.0,
            gangs=self.gangs,
            new_gang=lambda name: GangLifecycle(name, self.effects),
            tell=self.told.append,
            mark=self.marked.append,
            wake=lambda: self.woken.append(None),
            invalid=lambda kind, obj, text: self.invalid.append((obj["metadata"]["name"], text)),
            note=lambda kind, obj, text: None,
            choose=self.choose,
        )

    def put(self, kind: Kind, obj: Object) -> None:
        self.api.put(kind, obj)
        self.informers.deliver(all=True)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]


def order_of(*served: Kind, follow: bool = False) -> list[str]:
    """Return the plurals of the kinds in the order in which they are subscribed to."""
    found: list[str] = []

    def informer(kind: Kind) -> Any:
        async def followed(take: object) -> None:
            found.append(kind.plural)

        return SimpleNamespace(objects={}, subscribe=lambda take: found.append(kind.plural), follow=followed)

    watch = Watched().over(informer, *served)
    asyncio.run(watch.follow()) if follow else watch.subscribe()
    return found


def test_kinds_are_routed_in_the_order_in_which_decisions_need_them() -> None:
    served = (RESOURCE_QUOTAS, FLAVORS, RESERVATIONS, VOLUME_CLAIMS)
    wanted = ["resourcequotas", "nodes", "persistentvolumeclaims", FLAVORS.plural, RESERVATIONS.plural]
    wanted += [QUEUES.plural, "jobs", "pods"]
    assert order_of(*served) == wanted
    assert order_of(*served, follow=True) == wanted


def test_kinds_that_are_not_served_are_not_watched() -> None:
    assert order_of(FLAVORS) == ["nodes", FLAVORS.plural, QUEUES.plural, "jobs", "pods"]


def test_only_new_kinds_are_followed_later() -> None:
    found: list[Kind] = []

    def informer(kind: Kind) -> Any:
        async def followed(take: object) -> None:
            found.append(kind)

        return SimpleNamespace(objects={}, follow=followed)

    watch = Watched().over(informer, RESOURCE_QUOTAS, FLAVORS)
    asyncio.run(watch.follow_more([FLAVORS, RESERVATIONS]))
    assert found == [FLAVORS], "the API server does not serve the other one"


def test_objects_that_exist_already_become_events_and_gangs() -> None:
    watched = Watched()
    for kind, obj in ((NODES, node("n1")), (QUEUES, {"metadata": {"name": "q"}, "spec": {}}), (JOBS, job("j", 2))):
        watched.put(kind, obj)
    assert watched.told == [], "nothing is routed before it subscribes"
    watched.watch.subscribe()
    assert [each.node.name for each in watched.of(NodeSeen)] == ["n1"]
    assert [each.queue.name for each in watched.of(QueueSeen)] == ["q"]
    assert list(watched.gangs) == ["default/j"]
    assert watched.marked == ["default/j"]


def test_an_invalid_object_is_reported_and_stops_no_other_object() -> None:
    watched = Watched()
    watched.watch.subscribe()
    broken = job("broken", 2)
    broken["spec"]["template"]["spec"] = {"schedulerName": "phalanx", "containers": [None]}
    watched.put(JOBS, broken)
    watched.put(JOBS, job("j", 2))
    [(name, text)] = watched.invalid
    assert name == "broken"
    assert text.startswith("it cannot be read: ")
    assert list(watched.gangs) == ["default/j"]


def test_pods_and_quotas_and_what_the_core_must_know_wake_the_loop() -> None:
    watched = Watched()
    watched.watch.subscribe()
    for kind, obj in (
        (PODS, pod("theirs", scheduler="default-scheduler", node="n1")),
        (RESOURCE_QUOTAS, quota(pods="3")),
        (NODES, node("n1")),
    ):
        watched.woken.clear()
        watched.put(kind, obj)
        assert watched.woken, kind


def test_a_quota_counts_for_the_pods_that_were_seen_before() -> None:
    watched = Watched()
    watched.watch.subscribe()
    watched.put(PODS, pod("a"))
    watched.put(RESOURCE_QUOTAS, quota(pods="1"))
    watched.put(JOBS, job("j", 1))
    [one] = watched.gangs["default/j"].objects.jobs.values()
    reason = watched.watch.defaults.headroom([(one, 1)])
    assert reason is not None
    assert "pods asked 1, used 1 of 1" in reason.text


def test_a_changed_queue_marks_the_gangs_that_wait_in_it() -> None:
    watched = Watched()
    for name in ("q", "other"):
        watched.put(QUEUES, {"metadata": {"name": name}, "spec": {}})
    watched.watch.subscribe()
    watched.put(JOBS, job("in-q", 2, queue="q"))
    watched.put(JOBS, job("in-other", 2, queue="other"))
    for gang in watched.gangs.values():
        advance(gang, watched.watch.defaults)
    watched.marked.clear()
    watched.put(QUEUES, {"metadata": {"name": "q"}, "spec": {"gang": False}})
    assert set(watched.marked) == {"default/in-q"}


def test_gangs_choose_among_the_clusters_that_the_watch_is_given() -> None:
    choice = ClusterChoice(clusters=("east",))
    watched = Watched(choose=lambda sought: choice)
    sought = Sought(gang="g", options={}, roles=(), priority=0, limit_s=None, clusters=None)
    assert watched.watch.defaults.choose(sought) is choice
    assert Watched().watch.defaults.choose(sought) == ClusterChoice(clusters=None)
