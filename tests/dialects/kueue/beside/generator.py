"""Scenarios of Kueue's objects from a seed: queues, then jobs that come, end, change and go.

A scenario has the form of a recording: `nodes`, `steps`, `observe`. All its names begin with its own prefix, and its
jobs are in a namespace of that name, so several scenarios can be played on one control plane at the same time. Nodes
have more than all quotas, so quota alone decides. Jobs of one step are created a second apart, because Kueue orders
jobs by whole seconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

API = "kueue.x-k8s.io/v1beta2"
FAMILIES = ("plain", "flavors", "groups", "cohort", "tree", "fair", "preempt", "partial", "elastic", "change")
FAIR_TREE = "fair-tree"  # fair sharing in a tree of cohorts; only if it is asked for
OBSERVED = (f"{API} Workload", f"{API} ClusterQueue", f"{API} LocalQueue")
_CLASSES = {"low": 10, "mid": 100, "high": 1000}
_TREES = ("tree", FAIR_TREE)
_GPU = "nvidia.com/gpu"


@dataclass
class Scenario:
    """`family`: what it is mostly about. `fair`: Kueue's Configuration has fair sharing."""

    name: str
    family: str
    nodes: list[Object] = field(default_factory=list)
    steps: list[Object] = field(default_factory=list)

    @property
    def fair(self) -> bool:
        return self.family in ("fair", FAIR_TREE)

    def document(self) -> Object:
        """As a recording is written."""
        head = {"scenario": self.name, "rule": self.family, "observe": list(OBSERVED)}
        return {**head, "nodes": self.nodes, "steps": self.steps}


def scenario(seed: int, family: str | None = None) -> Scenario:
    """Return the scenario of a seed, always the same. `family`: None takes one by turns."""
    family = family or FAMILIES[seed % len(FAMILIES)]
    made = Scenario(name=f"g{seed}", family=family)
    _Maker(made, random.Random(f"{family}-{seed}")).make()
    return made


class _Maker:
    def __init__(self, made: Scenario, rng: random.Random) -> None:
        self.made, self.rng = made, rng
        self.flavors: list[str] = []
        self.devices: list[str] = []
        self.queues: list[str] = []
        self.jobs: list[str] = []
        self.elastic: list[str] = []
        self.sizes: dict[str, int] = {}
        self.over: set[str] = set()
        self.memory = self._chance(0.3)

    def make(self) -> None:
        self.made.steps.append({"apply": self._begin()})
        for _ in range(self.rng.randint(4, 6)):
            self.made.steps.append(self._step())

    def _name(self, word: str) -> str:
        return f"{self.made.name}-{word}"

    def _chance(self, part: float) -> bool:
        return self.rng.random() < part

    # --- queues ---------------------------------------------------------------------------------------------------

    def _begin(self) -> list[Object]:
        many = self.made.family in ("flavors", "groups") or self._chance(0.2)
        self.flavors = [self._name(f"f{i}") for i in range(self.rng.randint(2, 3) if many else 1)]
        if self.made.family == "groups":
            self.devices = [self._name(f"d{i}") for i in range(self.rng.randint(1, 2))]
        self._make_nodes()
        objects: list[Object] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.made.name}}]
        for flavor in self.flavors:
            objects.append(_made("ResourceFlavor", flavor, {"nodeLabels": {"flavor": flavor}}))
        objects += [_made("ResourceFlavor", one, {"nodeLabels": {"device": one}}) for one in self.devices]
        for word, value in _CLASSES.items():
            objects.append({**_made("WorkloadPriorityClass", self._name(word)), "value": value})
        return objects + self._cohorts() + self._cluster_queues()

    def _make_nodes(self) -> None:
        for flavor in self.flavors:
            for device in self.devices or [""]:
                name = f"{flavor}{device.removeprefix(self.made.name)}"
                labels = {"flavor": flavor, **({"device": device} if device else {})}
                capacity = {"cpu": 500, "memory": "5000Gi", "pods": 500, "resources": {_GPU: 500} if device else {}}
                self.made.nodes.append({"name": name, "pool": flavor, "labels": labels, **capacity})

    def _cohorts(self) -> list[Object]:
        """The Cohort objects of a tree: a root and two below it."""
        if self.made.family not in _TREES:
            return []
        found = []
        for word, parent in (("root", None), ("left", "root"), ("right", "root")):
            spec: Object = {"parentName": self._name(parent)} if parent else {}
            if self.made.fair:
                spec["fairSharing"] = {"weight": self.rng.choice(["1", "2", "500m"])}
            if self._chance(0.4):
                spec["resourceGroups"] = self._groups(limits=parent is not None)
            found.append(_made("Cohort", self._name(word), spec))
        return found

    def _cluster_queues(self) -> list[Object]:
        found = []
        together = self.made.family in ("cohort", "tree", "fair", FAIR_TREE, "preempt") or self._chance(0.5)
        for word in "abcd"[: self.rng.randint(2, 4) if together else 1]:
            name = self._name(word)
            self.queues.append(name)
            spec: Object = {"namespaceSelector": {}, "resourceGroups": self._groups(limits=together)}
            if together:
                spec["cohortName"] = self._name(
                    self.rng.choice(["left", "right"] if self.made.family in _TREES else ["c"])
                )
            self._policies(spec, together=together)
            found.append(_made("ClusterQueue", name, spec))
            local = _made("LocalQueue", name, {"clusterQueue": name})
            found.append({**local, "metadata": {"name": name, "namespace": self.made.name}})
        return found

    def _policies(self, spec: Object, *, together: bool) -> None:
        if self._chance(0.3):
            spec["queueingStrategy"] = "StrictFIFO"
        if self.made.family in ("preempt", "fair", *_TREES) or self._chance(0.3):
            preemption: Object = {
                "withinClusterQueue": self.rng.choice(
                    ["Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority"]
                )
            }
            if together:
                preemption["reclaimWithinCohort"] = self.rng.choice(["Never", "Any", "Any", "LowerPriority"])
                if preemption["reclaimWithinCohort"] != "Never" and not self.made.fair and self._chance(0.3):
                    preemption["borrowWithinCohort"] = {"policy": "LowerPriority"}
                    if self._chance(0.5):
                        preemption["borrowWithinCohort"]["maxPriorityThreshold"] = 100
            spec["preemption"] = preemption
        if len(self.flavors) > 1 and self._chance(0.4):
            spec["flavorFungibility"] = {
                "whenCanBorrow": self.rng.choice(["MayStopSearch", "TryNextFlavor"]),
                "whenCanPreempt": self.rng.choice(["MayStopSearch", "TryNextFlavor"]),
            }
        if self.made.fair:
            spec["fairSharing"] = {"weight": self.rng.choice(["1", "1", "2", "500m", "3"])}

    def _groups(self, *, limits: bool) -> list[Object]:
        covered = ["cpu", "memory"] if self.memory else ["cpu"]
        flavors = []
        for flavor in self.flavors:
            resources = [self._quota("cpu", self.rng.randint(2, 8), limits=limits)]
            if self.memory:
                resources.append(self._quota("memory", self.rng.randint(2, 8), limits=False, unit="Gi"))
            flavors.append({"name": flavor, "resources": resources})
        found = [{"coveredResources": covered, "flavors": flavors}]
        if self.devices:
            each = [
                {"name": one, "resources": [self._quota(_GPU, self.rng.randint(1, 4), limits=limits)]}
                for one in self.devices
            ]
            found.append({"coveredResources": [_GPU], "flavors": each})
        return found

    def _quota(self, resource: str, amount: int, *, limits: bool, unit: str = "") -> Object:
        found: Object = {"name": resource, "nominalQuota": f"{amount}{unit}"}
        if limits and self._chance(0.25):
            found["borrowingLimit"] = str(self.rng.randint(0, 3))
        if limits and self._chance(0.2):
            found["lendingLimit"] = str(self.rng.randint(0, amount))
        return found

    # --- what happens ---------------------------------------------------------------------------------------------

    def _step(self) -> Object:
        alive = [name for name in self.jobs if name not in self.over]
        roll = self.rng.random()
        if not alive or roll < 0.55:
            return {"apply": [self._job() for _ in range(self.rng.randint(1, 3))], "pause": 1.1}
        name = self.rng.choice(alive)
        if self.made.family in ("elastic", "change") and roll < 0.8:
            return self._resize(self.rng.choice([one for one in alive if one in self.elastic] or [name]))
        if roll < 0.72:
            self.over.add(name)
            return {"finish": [name]}
        if roll < 0.82 and self.sizes[name] > 1:
            return {"finish": [f"{name}:{self.rng.randrange(self.sizes[name])}"]}
        if roll < 0.9:
            self.over.add(name)
            return {"delete": [f"Job {name}"]}
        return self._change_queue()

    def _resize(self, name: str) -> Object:
        self.sizes[name] = self.rng.randint(1, 6)
        return {"patch": {"object": f"Job {name}", "patch": {"spec": {"parallelism": self.sizes[name]}}}}

    def _change_queue(self) -> Object:
        queue = f"ClusterQueue {self.rng.choice(self.queues)}"
        policy = self.rng.choice(["Hold", "HoldAndDrain", "None", "None"])
        return {"patch": {"object": queue, "patch": {"spec": {"stopPolicy": policy}}}}

    def _job(self) -> Object:
        name = self._name(f"j{len(self.jobs)}")
        self.jobs.append(name)
        size = self.sizes[name] = self.rng.choice([1, 1, 2, 2, 3, 4])
        labels = {"kueue.x-k8s.io/queue-name": self.rng.choice(self.queues)}
        if self._chance(0.6):
            labels["kueue.x-k8s.io/priority-class"] = self._name(self.rng.choice(list(_CLASSES)))
        notes: dict[str, str] = {}
        completions = size
        if self.made.family == "partial" and size > 1 and self._chance(0.7):
            notes["kueue.x-k8s.io/job-min-parallelism"] = str(self.rng.randint(1, size - 1))
        elif self.made.family in ("elastic", "change"):
            completions = 12
            if self.made.family == "elastic" and self._chance(0.8):
                notes["kueue.x-k8s.io/elastic-job"] = "true"
                self.elastic.append(name)
        requests: dict[str, str] = {"cpu": str(self.rng.randint(1, 2))}
        if self.memory or self._chance(0.03):
            requests["memory"] = "1Gi"
        if self.devices and self._chance(0.6):
            requests[_GPU] = "1"
        container = {"name": "m", "image": "x", "resources": {"requests": requests, **_limits(requests)}}
        spec = {
            "parallelism": size,
            "completions": completions,
            "completionMode": "Indexed" if completions == size else "NonIndexed",
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": self.made.name, "labels": labels, "annotations": notes},
            "spec": spec,
        }


def _limits(requests: dict[str, str]) -> Object:
    return {"limits": {_GPU: requests[_GPU]}} if _GPU in requests else {}


def _made(kind: str, name: str, spec: Object | None = None) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, **({} if spec is None else {"spec": spec})}
