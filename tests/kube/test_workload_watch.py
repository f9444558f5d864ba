"""`kube/routing/workload_watch.py`: changed Jobs and pods, routed to the gangs that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.read.node import read_node
from phalanx.kube.routing.caches import ObjectCaches
from phalanx.kube.routing.fence import Take
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.routing.volume_users import VolumeUsers
from phalanx.kube.routing.workload_watch import WorkloadWatch
from phalanx.model.pod import Shape, amounts
from tests.kube.double import Api, Caches, Object, job, node, pod
from tests.kube.gang.recorded_effects import RecordedEffects


@dataclass
class Routed:
    """A watch of Jobs and pods on the double. `marked`: the gangs that changed, since the last call of `changed`."""

    api: Api = field(default_factory=Api)
    gangs: dict[str, GangLifecycle] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)
    allocations: NodeAllocations = field(default_factory=NodeAllocations)

    def __post_init__(self) -> None:
        self.informers = Caches(self.api)
        self.caches = ObjectCaches(self.informers, KubeSettings())
        effects, takes = RecordedEffects(), dict[Kind, Take]()
        self.allocations.see_node(read_node(node("n1", 4)))
        self.watch = WorkloadWatch(
            self.caches,
            VolumeUsers(self.caches, takes),
            self.allocations,
            takes,
            gangs=self.gangs,
            new_gang=lambda name: GangLifecycle(name, effects),
            changed=self.marked.append,
            as_defined=lambda pod, obj: pod,
        )
        takes |= {JOBS: self.watch.on_job, PODS: self.watch.on_pod}
        for kind, take in takes.items():
            self.informers(kind).subscribe(take)

    def put(self, obj: Object) -> str:
        """Create or change a Job or a pod, and return its uid."""
        kind = JOBS if "template" in obj["spec"] else PODS
        stored = self.api.put(kind, obj)
        self.informers.deliver(all=True)
        return str(stored["metadata"]["uid"])

    def drop(self, kind: Kind, name: str) -> None:
        self.api.drop(kind, f"default/{name}")
        self.informers.deliver(all=True)

    def known(self, kind: Kind, name: str) -> Object:
        return self.api.objects[kind][f"default/{name}"]

    def pods_of(self, gang: str) -> list[str]:
        return sorted(one.name for one in self.gangs[gang].objects.pods.values())

    def changed(self) -> set[str]:
        found, self.marked[:] = set(self.marked), []
        return found

    def free(self, cpu: int) -> bool:
        """Return whether node n1 has this number of free CPUs."""
        return self.allocations.fits("n1", Shape(requests=amounts({"cpu": cpu * 1000})))


def owned(name: str, job: str, uid: str, **how: Any) -> Object:
    obj = pod(name, **how)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    obj["metadata"]["ownerReferences"] = [owner]
    return obj


def test_a_job_and_its_pods_are_one_gang() -> None:
    routed = Routed()
    uid = routed.put(job("j", 2))
    routed.put(owned("a", "j", uid))
    assert list(routed.gangs) == ["default/j"]
    assert list(routed.gangs["default/j"].objects.jobs) == [uid]
    assert routed.pods_of("default/j") == ["a"]
    assert routed.changed() == {"default/j"}


def test_a_label_names_the_gang_of_jobs_and_of_bare_pods() -> None:
    routed = Routed()
    routed.put(job("j", 2, job="t"))
    uid = routed.put(pod("a", job="t"))
    routed.put(pod("alone"))
    assert sorted(routed.gangs) == ["default/pod:alone", "default/t"]
    assert routed.pods_of("default/t") == ["a"]
    assert routed.watch.gang_of_pod(uid) == "default/t"


def test_a_pod_is_in_no_gang_until_its_job_is_known() -> None:
    """The watches of Jobs and of pods are independent, so a pod may arrive before its Job."""
    routed = Routed()
    early = routed.put(owned("a", "j", "uid-of-j"))
    assert routed.gangs == {}
    assert routed.watch.gang_of_pod(early) is None
    arrives = job("j", 1)
    arrives["metadata"]["uid"] = "uid-of-j"
    routed.put(arrives)
    assert routed.pods_of("default/j") == ["a"]
    assert routed.watch.gang_of_pod(early) == "default/j"


def test_pods_of_a_job_of_the_same_name_but_another_uid_stay_outside() -> None:
    routed = Routed()
    routed.put(job("j", 1))
    stale = routed.put(owned("old", "j", "uid-of-the-deleted-one"))
    assert routed.pods_of("default/j") == []
    assert routed.watch.gang_of_pod(stale) is None


def test_a_job_that_changes_its_gang_takes_its_pods_along() -> None:
    routed = Routed()
    uid = routed.put(job("j", 2, job="before"))
    routed.put(owned("a", "j", uid))
    routed.changed()
    moved = routed.known(JOBS, "j")
    moved["metadata"]["labels"]["phalanx.dev/job"] = "after"
    routed.put(moved)
    assert routed.changed() == {"default/before", "default/after"}
    assert routed.gangs["default/before"].objects.empty
    assert routed.pods_of("default/after") == ["a"]


def test_a_job_that_leaves_its_queue_is_no_member_any_more() -> None:
    routed = Routed()
    uid = routed.put(job("j", 1, scheduler="default-scheduler"))
    routed.put(owned("a", "j", uid))
    left = routed.known(JOBS, "j")
    left["metadata"]["labels"] = {}
    routed.put(left)
    assert routed.gangs["default/j"].objects.jobs == {}
    assert routed.changed() >= {"default/j"}


def test_the_pods_of_a_deleted_job_leave_its_gang() -> None:
    routed = Routed()
    uid = routed.put(job("j", 1))
    orphan = routed.put(owned("a", "j", uid))
    routed.changed()
    routed.drop(JOBS, "j")
    assert routed.gangs["default/j"].done
    assert routed.watch.gang_of_pod(orphan) is None
    assert routed.changed() == {"default/j"}


def test_a_deleted_pod_leaves_its_gang_and_its_node() -> None:
    routed = Routed()
    uid = routed.put(pod("a", "3", node="n1"))
    assert not routed.free(2)
    routed.watch.foreign_pods.touched.clear()
    routed.changed()
    routed.drop(PODS, "a")
    assert routed.free(4)
    assert routed.gangs["default/pod:a"].done
    assert routed.watch.gang_of_pod(uid) is None
    assert list(routed.watch.foreign_pods.touched) == [uid]
    assert routed.changed() == {"default/pod:a"}


def test_an_ended_pod_is_still_of_its_gang_but_charges_no_node() -> None:
    routed = Routed()
    uid = routed.put(pod("a", "3", node="n1"))
    done = routed.known(PODS, "a") | {"status": {"phase": "Succeeded"}}
    routed.put(done)
    assert routed.free(4)
    assert routed.pods_of("default/pod:a") == []
    assert routed.watch.gang_of_pod(uid) == "default/pod:a"


def test_foreign_pods_charge_their_node_and_are_in_no_gang() -> None:
    routed = Routed()
    uid = routed.put(pod("theirs", "3", scheduler="default-scheduler", node="n1"))
    assert routed.gangs == {}
    assert not routed.free(2)
    assert list(routed.watch.foreign_pods.touched) == [uid]
    assert routed.marked == []


def test_a_pod_whose_owner_changes_follows_the_new_owner_only() -> None:
    """An orphaned pod may be adopted by another Job."""
    routed = Routed()
    first, second = routed.put(job("first", 1)), routed.put(job("second", 1))
    routed.put(owned("a", "first", first))
    adopted = routed.known(PODS, "a")
    adopted["metadata"]["ownerReferences"][0] |= {"name": "second", "uid": second}
    routed.put(adopted)
    assert (routed.pods_of("default/first"), routed.pods_of("default/second")) == ([], ["a"])
    routed.changed()
    routed.drop(JOBS, "first")
    assert routed.changed() == {"default/first"}
    assert routed.pods_of("default/second") == ["a"]


def test_a_deletion_of_an_unknown_pod_changes_nothing() -> None:
    routed = Routed()
    never_seen = pod("a")
    never_seen["metadata"]["uid"] = "u"
    routed.watch.on_pod(Change(kind=PODS, old=never_seen, new=None))
    assert routed.marked == []
    assert routed.watch.foreign_pods.touched == {}


def test_objects_with_a_newly_selected_label_are_read_again_in_pieces() -> None:
    """The shape of a pod has only the labels that selectors use: when a selector uses a new one, the pods that have it
    get another shape."""
    routed = Routed()
    labelled, plain = pod("labelled"), pod("plain")
    labelled["metadata"]["labels"]["app"] = "web"
    routed.put(labelled)
    routed.put(plain)
    assert [*routed.watch.read_again()] == []
    routed.changed()
    selector = pod("selects")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    selector["spec"]["affinity"] = rule
    routed.put(selector)
    routed.changed()
    assert len([*routed.watch.read_again()]) == 3, "it pauses once for each object"
    assert routed.changed() == {"default/pod:labelled"}
    [read] = routed.gangs["default/pod:labelled"].objects.pods.values()
    assert dict(read.shape.labels) == {"app": "web"}
    assert [*routed.watch.read_again()] == [], "the label is known by now"
