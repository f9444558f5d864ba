"""A dialect, as a value: it reads another scheduler's API and writes that API's status, in three parts.

- *Definitions*: its queues, quotas, flavors and priorities become queues of the one queue tree (`Dialect.define`).
- *Gangs*: its labels, annotations and job kinds become Phalanx's own (`options_of`). `claim` returns what the
  definitions mean for one gang: its queue in the tree, its priority, the reason why it may not start.
- *Answers*: status, conditions and objects that show the decisions to the dialect's users (`answer`, `statuses`).

Each part is a table or a pure function. `kube` watches the kinds that a dialect names, calls the parts, reports changes
to the core and writes the answers. It knows no dialect by name. A new dialect needs a folder here and one entry in
`phalanx.dialects.enabled`. Several dialects work together, because each only adds queues to the tree and labels to
objects.

A field without effect is never ignored silently: a table lists every field with its `fields.Use`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from phalanx.client.kind import Kind
from phalanx.client.tally import MetricFamily
from phalanx.model.job import Outcome
from phalanx.model.node import Device, Flavor, NodeGroup, Topology, Zone
from phalanx.model.pod import Amounts, DeviceShare, Toleration
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode

Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = Mapping[Kind, Mapping[str, Object]]  # by kind, then by `namespace/name` or `name`
Charging: TypeAlias = Callable[[Amounts], Amounts]  # a pod's requests -> the amounts that its queue is charged


CLUSTER = "phalanx.dev/cluster"  # a label of nodes of other clusters: the name of their cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePart:
    """A part of a node that is reserved for some pods (`Definitions.part_use`). It becomes a node of its own, and its
    node becomes smaller by the same amount. `name`: unique among all present and earlier parts. `closed`: True if the
    part accepts no more pods. When a part is removed, its pods are charged to its node."""

    name: str
    node: str
    allocatable: Amounts
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUse:
    """The parts of nodes that a pod may use and prefers. `required`: True if the pod may use only these parts."""

    names: tuple[str, ...]
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAsk:
    """A pod's device request in a dialect's annotations. `instead`: the resources of the pod that it replaces. `whole`:
    whole devices. `share`: a share of devices. `aligned`: as `Shape.aligned`. `wrong`: why the request is invalid;
    empty if it is valid."""

    instead: frozenset[str]
    whole: Amounts = ()
    share: DeviceShare | None = None
    aligned: str = ""
    wrong: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A pod that exists only in the scheduler and represents an object that needs capacity. It waits and is placed like
    a pod. Its node is written into the object's status (`Definitions.placed`). `pod`: a pod object with the object's
    uid and a name that no real pod can have. `asks`: its requests."""

    kind: Kind
    key: str
    pod: Object
    asks: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The definitions of a dialect, translated.

    `queues`, `flavors`: their names are a kind, a slash and the object's name, so no other dialect uses them. One
    dialect may use plain queue names; a Phalanx Queue takes precedence over such a queue.
    `topologies`: hierarchies of node labels, in addition to the policy's. `node_labels` may add these labels to nodes.
    `node_groups`: node groups that grow only for the jobs of one queue (`model.node.OnDemand`).
    `parts`: reserved parts of nodes. `stand_ins`: pods for objects that need capacity.
    `fault`, `fault_at`: why the definitions are invalid as a whole, and the object at fault by kind and key. The last
    valid definitions stay in force; if there are none, the invalid ones are used."""

    queues: tuple[Queue, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    topologies: tuple[Topology, ...] = ()
    node_groups: tuple[NodeGroup, ...] = ()
    parts: tuple[NodePart, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    fault: str = ""
    fault_at: tuple[Kind, str] | None = None

    @property
    def about_pods(self) -> bool:
        """Return whether the definitions affect single pods (`pod_options`, `part_use`, `device_ask`,
        `devices_given`)."""
        return False

    def topology_key(self) -> Hashable:
        """Return a cache key for `node_labels`, `node_zones` and `node_devices`: their results change only if this key
        changes."""
        return ()

    def node_zones(self, node: str) -> tuple[Zone, ...]:
        """Return the NUMA zones of a node. They are used if the node itself declares none."""
        return ()

    def node_labels(self, node: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the topology labels of a node, in addition to its own `labels`."""
        return {}

    def options_key(self) -> Hashable:
        """Return a cache key for `pod_options`: its results change only if this key changes."""
        return ()

    def pod_options(self, pod: Object) -> Mapping[str, str]:
        """Return Phalanx options of a pod that follow from the definitions, in addition to the options of the pod
        itself (`Dialect.options_of`)."""
        return {}

    def part_use(self, pod: Object) -> PartUse | None:
        """Return the parts of nodes (`NodePart`) that the pod may use or requires; None if it may use no part."""
        return None

    def placed(self, stand_in: StandIn, node: str, now: str) -> Object:
        """Return the status of an object whose stand-in was placed on a node. `now`: as a metav1.Time."""
        return {}

    def node_devices(self, node: str) -> tuple[Device, ...]:
        """Return the devices of a node. Resources for which the node itself lists devices are left out."""
        return ()

    def devices_given(self, pod: Object) -> tuple[str, ...]:
        """Return the devices of a pod that another scheduler placed, from the dialect's annotations."""
        return ()

    def device_ask(self, pod: Object) -> DeviceAsk | None:
        """Return the pod's device request in the dialect's annotations; None if it has none."""
        return None

    def at_binding(self, pod: Object, node: str, part: str, devices: tuple[str, ...]) -> Mapping[str, str]:
        """Return the annotations that a pod gets when it is bound. `part`: the part of the node; empty if it is in
        none. `devices`: the pod's devices."""
        return {}


class Owner(NamedTuple):
    """A reference to an object."""

    group: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The options of one gang, as its objects state them.

    `gang`: its id. `queue`: the queue name in its labels. `options`: Phalanx's and the dialect's options.
    `requests`: the different requests of its pods. `owner`: the first object that forms it.
    `priority`: the highest priority of its pods."""

    gang: str
    namespace: str
    queue: str
    options: Mapping[str, str]
    requests: frozenset[Amounts] = frozenset()
    owner: Owner | None = None
    priority: int = 0

    @property
    def asks(self) -> frozenset[str]:
        """Return the resources that its pods request."""
        return frozenset(resource for each in self.requests for resource, _ in each)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleClaim:
    """The definitions' settings for the bare pods of one role. `minimum`: the number of pods that must start with the
    gang. `group`: the name of their group, which `phalanx.dev/subgroups` declares."""

    minimum: int
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClaim:
    """The settings of an object that declares a gang of bare pods.

    `minimum`: the number of pods that must exist before any starts; the oldest ones start together.
    `of_role`: role -> the number of its pods among these.
    `whole`: the requests of the whole gang (cpu in millicores, others in whole units). Amounts beyond its existing
    pods' requests are reserved for later pods.
    `by_priority`: True if the pods with the highest priority start first, and not the oldest ones."""

    minimum: int = 1
    by_priority: bool = False
    of_role: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUpdate:
    """The fields that a start adds to the pod template of one role; they are removed when the start ends."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The definitions' settings for a gang.

    `queue`: its queue in the tree; empty: the default queue.
    `priority`: replaces its pods' priority; None: its pods' own.
    `blocked`: why it may not start, regardless of capacity. `drained`: True if it may not run either, so that it is
    stopped. `options`: Phalanx options that replace those of its members.
    `roles`: for a gang of bare pods, the settings of each role. Pods of other roles start with the gang, but it does
    not wait for them.
    `group`: the settings of all its pods together; with `roles`, only the number that must exist counts.
    `gate`: why it may not run yet although its nodes and quota are reserved. While it is set, no Job of the gang is
    resumed. `silent`: True if no answers are written for the gang.
    `updates`: pod set -> the fields that the start adds to its template, once there is no gate.
    `about`: an answer object by kind and key. It need not exist yet and has no reference to the gang; the gang is
    reconciled when it changes.
    `evicted_as`: type and reason of the condition that a bare pod gets before it is evicted.
    `queues`: queues, parents first, that no definition declares. They exist while gangs claim them.
    `charging`: computes the charge of its queue for a pod; None: the pod's requests.
    `account`: the name under which its usage counts in its queue; empty: its user's name.
    `submitted_s`: when it was submitted (seconds since the epoch); None: when its oldest member was created.
    `clusters`: the other clusters that may run it; None: this cluster; any other cluster, if its Jobs request that.
    `note`: what is known about the nodes for which it waits, as a part of a sentence, and whether they will come.
    `hold_s`: the time for which a started gang keeps capacity for its later pods (seconds); None: the default of all
    gangs."""

    queue: str
    priority: int | None = None
    submitted_s: float | None = None
    clusters: tuple[str, ...] | None = None
    note: tuple[str, bool] = ("", False)
    blocked: Reason | None = None
    drained: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, RoleClaim] = field(default_factory=dict)
    group: GroupClaim | None = None
    silent: bool = False
    gate: Reason | None = None
    updates: Mapping[str, PodUpdate] = field(default_factory=dict)
    about: tuple[Kind, str] | None = None
    evicted_as: tuple[str, str] | None = None
    queues: tuple[Queue, ...] = ()
    charging: Charging | None = None
    account: str = ""
    hold_s: float | None = None


def no_pod_group(name: str) -> Reason:
    """Return why a gang waits whose pods name a PodGroup that does not exist."""
    text = f"the PodGroup {name} of its pods does not exist yet: create it"
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text)


class Stage(StrEnum):
    """The stage of a gang. RESERVED: its nodes and quota are reserved, and it waits for its claim's gate. LEAVING: it
    is preempted or its start is taken back, and some of its pods still exist."""

    WAITING = "waiting"
    RESERVED = "reserved"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """A role of a gang.

    `count`, `minimum`: the requested and the required number of pods. `placed`: the number of pods that the start
    granted.
    `request`: the requests of one pod. `flavor`: the flavor of the start; empty if there is none.
    `template`: the pod template as the user wrote it.
    `succeeded`, `ready`: the numbers of succeeded and of ready pods.
    `reclaimable`: the number of granted pods that are no longer needed.
    `places`: (labels of a node, number of the pods on it), for each node with pods of the role."""

    name: str
    count: int
    minimum: int
    request: Amounts
    template: Object
    placed: int = 0
    flavor: str = ""
    succeeded: int = 0
    ready: int = 0
    reclaimable: int = 0
    places: tuple[tuple[Mapping[str, str], int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """The end of a gang's start since the last `Told`. `preempted`: the gang was preempted; otherwise its start was
    taken back. `preemptor`: the preempting gang, if it is known."""

    reason: Reason
    preempted: bool = False
    preemptor: Told | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The view of a gang that a dialect gets.

    `owners`: the objects that form it, oldest first. `kind`: the owners' kind; PodGroup if they are bare pods.
    `options`: its Phalanx options. `queue`: its queue in the tree.
    `reason`: why it waits. `created_s`: when it was created (seconds since the epoch)."""

    id: str
    namespace: str
    kind: str
    owners: tuple[Object, ...]
    options: Mapping[str, str]
    queue: str
    priority: int
    stage: Stage
    pod_sets: tuple[PodSet, ...]
    reason: Reason | None = None
    evicted: Eviction | None = None
    outcome: Outcome | None = None
    created_s: float = 0.0


BROUGHT_BY = "phalanx.dev/dialect"  # a label of objects that Phalanx installs for a dialect; its value is the name
# Fields of an answer's status that other programs write and `claim` reads.
READ_BACK = ("admission", "admissionChecks", "requeueState", "nominatedClusterNames")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The desired state of an object of the dialect.

    `body`: the object to create if it is missing; None: Phalanx does not create it.
    `spec`: the desired fields of its spec if it exists. `status`: the desired status; None: Phalanx does not write it.
    `finalizers`: the desired finalizers; None: unchanged.
    `annotations`: the desired annotations. `metadata`: further desired metadata: labels and owners.
    `again_s`: when to compute the answer again even without a change (seconds since the epoch).
    `plain`: True if the kind has no status subresource, so that the status is written with the object.
    `gone`: True if the object must be deleted. `uid`: the uid that the deleted object must have; empty: any."""

    kind: Kind
    key: str
    body: Object | None = None
    spec: Object | None = None
    status: Object | None = None
    again_s: float | None = None
    finalizers: tuple[str, ...] | None = None
    annotations: Mapping[str, str] | None = None
    metadata: Mapping[str, Any] | None = None
    plain: bool = False
    gone: bool = False
    uid: str = ""


class Occurrence(NamedTuple):
    """An event to record on an object (`about`, with its kind)."""

    about: Object
    reason: str
    text: str
    warning: bool = False


# (a gang, an answer object before a write, after it) -> the events that its scheduler records then. None: it was
# created.
Occurrences: TypeAlias = Callable[[Told, Object | None, Object], Iterable[Occurrence]]
Defined = TypeVar("Defined", bound=Definitions)
Read = TypeVar("Read", bound=Definitions, contravariant=True)


class OptionsOf(Protocol):
    def __call__(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]: ...


def no_answers(*of: Any) -> Iterable[Answer]:
    """Return no answers: the `Dialect.answer` and `Dialect.statuses` of a dialect that only reads."""
    return ()


def of_pods(options_of: Callable[[Mapping[str, Any], str], Mapping[str, str]]) -> OptionsOf:
    """Return a function for `Dialect.options_of` of a dialect that reads labels and annotations of pods only.
    `options_of`: returns the options of a pod from its metadata and its scheduler name."""
    return lambda kind, meta, scheduler="": options_of(meta, scheduler) if kind == "Pod" else {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # a key of tables; its fields have no hash
class Dialect(Generic[Defined]):
    """The API of another scheduler: its names, its kinds, and the functions that read and answer it.

    `scheduler_names`: Phalanx binds pods with these scheduler names.
    `definition_kinds`: the kinds that `define` reads. `by_status`: kind -> the parts of its status that `define` reads
    too.
    `answer_kinds`: the kinds that Phalanx writes.
    `crds`: the file with its CustomResourceDefinitions, which are created if they are missing; empty if there are none.
    `policies`: admission policies in place of its webhooks, and further objects of its installation.

    `define(objects)` translates all definition objects. It never raises: an unreadable object becomes a queue that
    starts no jobs.
    `options_of(kind, meta, scheduler)` returns the Phalanx options in an object's labels and annotations; empty if it
    has none. `meta`: its metadata. The key `template` has the metadata of its pods, `group` the group in a pod's spec,
    `priority` the class and the value of a pod's priority.
    `scheduler`: a pod's scheduler name.
    `claim(defined, said, objects)` returns the settings of a gang from the definitions and from users' changes to
    answers (`objects`); None if the gang does not belong to this dialect.
    `notes(kind, obj)` returns a sentence for each part of an object that has no effect, with the reason. `obj`: a
    definition, or a job with the dialect's labels.
    `gang_of(answer)` returns the id of the gang to which an answer object belongs; empty if it belongs to none.
    `answer(defined, told, objects, now)` returns the answers for one gang. `objects`: the existing objects of
    `answer_kinds`. `now`: as a metav1.Time.
    `statuses(defined, everyone, objects, now)` returns the answers for the definitions. `everyone`: all gangs of the
    dialect."""

    name: str
    scheduler_names: frozenset[str] = frozenset()
    definition_kinds: tuple[Kind, ...]
    by_status: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)
    answer_kinds: tuple[Kind, ...] = ()
    crds: str = ""
    policies: tuple[tuple[Kind, Object], ...] = ()
    define: Callable[[Objects], Defined]
    options_of: OptionsOf = lambda kind, meta, scheduler="": {}
    claim: Callable[[Defined, Said, Objects], Claim | None]
    notes: Callable[[str, Object], Iterable[str]] = lambda kind, obj: ()
    gang_of: Callable[[Object], str] = lambda answer: ""
    answer: Callable[[Defined, Told, Objects, str], Iterable[Answer]] = no_answers
    statuses: Callable[[Defined, Iterable[Told], Objects, str], Iterable[Answer]] = no_answers


class Figures(Protocol[Read]):
    """The metrics of a scheduler, under its own names. They are counted while answers are written."""

    def wrote(self, defined: Read, told: Told, kind: Kind, before: Object, after: Object) -> None:
        """Count the changes of an answer object by a write. `before`, `after`: the object before and after it."""

    def look(self, defined: Read, everyone: Iterable[Told], objects: Objects) -> None:
        """Update the gauges from all gangs of the dialect and from the existing answer objects."""

    def families(self) -> Iterable[MetricFamily]:
        """Return the metrics as of the last `look`. The cost grows with the number of queues, not of jobs."""


class Journal(Protocol):
    """A bounded history of a dialect's gangs, for later requests. It exists while the process leads."""

    def saw(self, before: Told | None, after: Told | None, now_s: float) -> None:
        """Record a change of a gang. `before`, `after`: its views; None if it did not exist, or no longer exists."""

    def view(self, path: Sequence[str], query: Mapping[str, str], now_s: float) -> Object | list[Object] | None:
        """Return the response to a path, as `View` does; None if the journal does not serve the path."""

    def stream(self, path: Sequence[str], query: Mapping[str, str]) -> Iterator[Sequence[Object]] | None:
        """Return an iterator over future records. Each step yields the records since the last step, perhaps none. The
        iterator ends if the reader is so slow that records were dropped. None: there is no stream at this path with
        this query."""


class View(Protocol[Read]):
    """An API group, or a path outside API groups, that is served from the scheduler's state. No object of it is
    stored."""

    def __call__(
        self,
        defined: Read,
        everyone: Iterable[Told],
        objects: Objects,
        path: tuple[str, ...],
        query: Mapping[str, str],
    ) -> Object | list[Object]:
        """Return the response to a path below the group, which begins with the version. A refusal is a Status with its
        code, or an object with a `status_code`. `objects`: the objects of `answer_kinds`, and nodes."""
