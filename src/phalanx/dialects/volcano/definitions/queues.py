"""Translate Volcano's Queues to queues of Phalanx's queue tree, and collect the other definitions that gangs need.

A Queue has its plain name in the tree, because Volcano's users write this name on jobs of every kind. If a Phalanx
Queue has the same name, the Phalanx Queue is used. A Queue that cannot be read starts no jobs. So no job starts by
rules that the Queue's administrator did not write.


Sources: staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/{types,labels}.go of v1.15.1; `deserved` and
`guarantee` have the meaning that they have in the plugin capacity.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from phalanx.client.kind import NAMESPACES, PRIORITY_CLASSES
from phalanx.dialects.frame.dialect import Definitions, Object, Objects
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.dialects.volcano import kinds
from phalanx.dialects.volcano.definitions.configuration import (
    CONFIGURATIONS,
    NONE,
    VolcanoConfiguration,
    configuration,
    read_zones,
)
from phalanx.dialects.volcano.definitions.hyper_nodes import NO_HYPER_NODES, HyperNodes, read_hyper_nodes
from phalanx.model.node import Flavor, Topology, Zone
from phalanx.model.queue import (
    Queue,
    QueueOrder,
    QueuePreemption,
    QueueState,
    Quota,
    ReclaimFloor,
    ReclaimWithinCohort,
    WithinQueue,
)

QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"  # an annotation of pods and namespaces
_GROUP: Final = "nodegroup/"  # a flavor for the nodes of a node group
_GROUP_LABEL: Final = "volcano.sh/nodegroup-name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_STATES: Final = {"Closed": QueueState.CLOSED, "Closing": QueueState.CLOSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoDefinitions(Definitions):
    """Volcano's definitions. `names`: the names of the Queues. `standing`: queues of the tree for the Volcano Queue
    `default` and its parent, as long as these objects do not exist. `priorities`: the value of each PriorityClass.
    `usual_priority`: the priority of PodGroups without a PriorityClass. `by_priority`: True if those pods of a gang
    start first that have the highest priority. `hyper_nodes`: the HyperNodes. `zones`: the NUMA zones of each node.
    `redirects`: a map from a namespace to the queue of its PodGroups that name no queue, or that name the queue
    `default`."""

    names: frozenset[str] = frozenset()
    standing: tuple[Queue, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    usual_priority: int = 0
    by_priority: bool = True
    hyper_nodes: HyperNodes = NO_HYPER_NODES
    zones: Mapping[str, tuple[Zone, ...]] = field(default_factory=dict)
    redirects: Mapping[str, str] = field(default_factory=dict)

    def queue_of(self, namespace: str, queue: str) -> str:
        """Return the name that the queue of a PodGroup has in the queue tree. `queue`: the Queue that the PodGroup
        names; empty if it names no Queue."""
        said = self.redirects.get(namespace, kinds.DEFAULT) if queue in ("", kinds.DEFAULT) else queue
        return kinds.tree_name(said)

    def topology_key(self) -> Hashable:
        return (*self.hyper_nodes.all, *self.zones.items())

    def node_zones(self, node: str) -> tuple[Zone, ...]:
        return self.zones.get(node, ())

    def node_labels(self, node: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        return self.hyper_nodes.node_labels(node, labels)


def define(objects: Objects) -> VolcanoDefinitions:
    """Translate the definitions. This function raises no exception."""
    queues = objects.get(kinds.QUEUES, {})
    classes = objects.get(PRIORITY_CLASSES, {})
    hyper_nodes = read_hyper_nodes(objects.get(kinds.HYPER_NODES, {}))
    how = configuration(objects.get(CONFIGURATIONS, {}))
    parents = {str((obj.get("spec") or {}).get("parent") or "") for obj in queues.values()}
    found = [_queue(name, obj, how, inner=name in parents) for name, obj in queues.items() if name != kinds.ROOT]
    root = (Queue(name=kinds.ROOT, order=QueueOrder.TIERED),) if how.fair else ()
    standing = () if kinds.DEFAULT in queues else (*root, read_queue(kinds.DEFAULT, {}, how=how))
    found += root if found else ()
    groups = sorted({quota.flavor for queue in found for quota in queue.quotas if quota.flavor})
    return VolcanoDefinitions(
        queues=tuple(found),
        flavors=tuple(Flavor(name=each, labels=((_GROUP_LABEL, each.removeprefix(_GROUP)),)) for each in groups),
        names=frozenset(queues),
        standing=standing,
        topologies=(Topology(levels=hyper_nodes.levels),) if hyper_nodes.all else (),
        hyper_nodes=hyper_nodes,
        zones=read_zones(objects.get(kinds.NUMA_TOPOLOGIES, {})),
        priorities={name: int(one.get("value") or 0) for name, one in classes.items()},
        by_priority=how.by_priority,
        usual_priority=min(
            (int(one.get("value") or 0) for one in classes.values() if one.get("globalDefault")), default=0
        ),
        redirects=_redirects(objects.get(NAMESPACES, {})),
    )


def _redirects(namespaces: Mapping[str, Object]) -> Mapping[str, str]:
    said = {name: (one["metadata"].get("annotations") or {}).get(QUEUE_NAME) for name, one in namespaces.items()}
    return {name: str(queue) for name, queue in said.items() if queue}


def read_queue(
    name: str, spec: object, state: str = "", how: VolcanoConfiguration = NONE, *, inner: bool = False
) -> Queue:
    """Return the queue that a Queue's spec describes. `state`: the state in the Queue's status. `inner`: True if the
    Queue has child queues. Raise Misread if a field is invalid."""
    said = Fields(spec, ("spec",))
    parent, quota = said.text("parent"), _quota(said, how)
    top = kinds.ROOT if how.fair else ""
    owed = how.reclaims and (bool(quota.guaranteed) or how.proportional)
    own = QueueOrder.PRIORITY if how.by_priority else QueueOrder.FIFO
    return Queue(
        name=kinds.tree_name(name),
        parent=top if parent in ("", kinds.ROOT) else kinds.tree_name(parent),
        quotas=((quota,) if quota != Quota() else ()) + tuple(Quota(flavor=each) for each in _node_groups(said)),
        weight=float(said.whole("weight", 1, least=0)) or 1.0,
        priority=said.whole("priority"),
        strict=said.text("dequeueStrategy") == "fifo",
        order=QueueOrder.TIERED if inner and how.fair else own,
        preemption=QueuePreemption(
            within=WithinQueue.LOWER if how.preempts else WithinQueue.NEVER,
            reclaim=ReclaimWithinCohort.ANY if owed else ReclaimWithinCohort.NEVER,
            down_to=ReclaimFloor.FAIR_SHARE if how.proportional else ReclaimFloor.GUARANTEE,
            reclaimable=said.flag("reclaimable", True),
        ),
        state=_STATES.get(state, QueueState.OPEN),
    )


def fault_of(obj: Object) -> str:
    """Return the error in a Queue; empty if the Queue is valid."""
    try:
        read_queue(str(obj["metadata"].get("name")), obj.get("spec") or {})
    except Misread as error:
        return str(error)
    return ""


# --- internal ---------------------------------------------------------------------------------------------------------


def _queue(name: str, obj: Object, how: VolcanoConfiguration, *, inner: bool) -> Queue:
    state = str((obj.get("status") or {}).get("state") or "")
    try:
        return read_queue(name, obj.get("spec") or {}, state, how, inner=inner)
    except Misread:
        return Queue(name=kinds.tree_name(name), state=QueueState.HELD)


def _quota(said: Fields, how: VolcanoConfiguration) -> Quota:
    """Return the quota of a Queue. Its guarantee is the larger of `deserved` and `guarantee`. The amount in `guarantee`
    is never lent to other Queues. If weights divide the cluster, `deserved` is ignored."""
    guarantee = dict(said.fields("guarantee").amounts("resource"))
    deserved = {} if how.proportional else dict(said.amounts("deserved"))
    own = {name: max(deserved.get(name, 0), guarantee.get(name, 0)) for name in deserved.keys() | guarantee.keys()}
    kept = {name: own[name] - amount for name, amount in guarantee.items()}
    return Quota(
        guaranteed=tuple(sorted(own.items())), limit=said.amounts("capability"), lend=tuple(sorted(kept.items()))
    )


def _node_groups(said: Fields) -> tuple[str, ...]:
    """Return, in order, the flavors of the node groups to whose nodes the jobs of a Queue are restricted."""
    near = said.fields("affinity").fields("nodeGroupAffinity")
    return tuple(dict.fromkeys(f"{_GROUP}{group}" for group in near.texts(_REQUIRED)))
