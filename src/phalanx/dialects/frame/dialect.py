"""Define the class `Dialect`. A *dialect* reads the objects of another scheduler's API and writes their status. It has
three parts.

- *Definitions* are the other scheduler's objects for queues, quotas, flavors and priorities. `Dialect.define`
  translates them to queues of Phalanx's one queue tree.
- *Gangs* are pods that start together, such as the pods of a job. `Dialect.options_of` translates the other scheduler's
  labels and annotations on jobs and pods to Phalanx's own labels and annotations, which are called *options* here.
  `Dialect.claim` returns the settings of one gang that follow from the definitions: its queue in the tree, its
  priority, and the reason why it may not start.
- *Answers* are objects and statuses that Phalanx writes so that users of the other scheduler's API see its decisions.
  `Dialect.answer` and `Dialect.statuses` compute them.

A dialect consists of tables and pure functions. The package `phalanx.kube` watches the kinds that a dialect names,
calls the dialect's functions, reports changes to the core and writes the answers. The code of `phalanx.kube` is the
same for all dialects. A new dialect needs a folder in `phalanx.dialects` and one entry in `phalanx.dialects.enabled`.
Several dialects can be used at the same time, because each dialect only adds queues to the tree and labels to objects.

Users are warned about each field of their objects that has no effect in Phalanx. For this purpose, each dialect has a
table with every field of its API and the field's use (`fields.Use`).
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
    """A part of a node that is reserved for the pods that `Definitions.part_use` chooses. The core sees the part as a
    node of its own, and sees the node without the part's amounts. When a part is removed, the core charges the part's
    pods to the node. `name`: the name of the part; no other part may ever get the same name, not even after this part
    is removed. `closed`: True if the part accepts no more pods."""

    name: str
    node: str
    allocatable: Amounts
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUse:
    """The parts of nodes that a pod may use. The scheduler prefers these parts to the rest of the nodes. `required`:
    True if the pod may use only these parts."""

    names: tuple[str, ...]
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAsk:
    """A device request that a pod makes with a dialect's annotations. `instead`: the names of the resources in the
    pod's spec whose requests are replaced by this device request. `whole`: for each resource, the requested number of
    whole devices. `share`: the requested share of a device. `aligned`: whether the devices must come from one NUMA
    zone: `required`, `preferred` or "". `wrong`: why the request is invalid; empty if it is valid."""

    instead: frozenset[str]
    whole: Amounts = ()
    share: DeviceShare | None = None
    aligned: str = ""
    wrong: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A stand-in: a pod that exists only in the scheduler. It represents an object that needs capacity, such as a
    Reservation of Koordinator. The scheduler queues and places the stand-in like a real pod. Then Phalanx writes the
    chosen node into the status of the represented object (`Definitions.placed`). `kind`, `key`: the represented object.
    `pod`: a pod object with the represented object's uid and a name that no real pod can have. `asks`: the resource
    requests of the stand-in."""

    kind: Kind
    key: str
    pod: Object
    asks: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The definitions of a dialect after their translation to Phalanx's model.

    `queues`, `flavors`: the translated queues and flavors. Each name consists of a kind, a slash and the object's name,
    so that no other dialect uses the same name. A single dialect is allowed to use queue names without a kind. If a
    Phalanx Queue has the same name, the Phalanx Queue is used.
    `topologies`: hierarchies of node labels, in addition to the hierarchies of Phalanx's policy. `node_labels` may add
    these labels to nodes.
    `node_groups`: node groups to which an autoscaler adds nodes only for the jobs of one queue (`model.node.OnDemand`).
    `parts`: reserved parts of nodes (`NodePart`). `stand_ins`: pods that exist only in the scheduler and represent
    other objects (`StandIn`).
    `fault`, `fault_at`: why the definitions are invalid as a whole, and the kind and key of the object that makes them
    invalid. While there is a fault, the last valid definitions stay in effect. If there were no valid definitions
    before, the invalid definitions are used."""

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
        """Return whether the definitions affect single pods, so that `pod_options`, `part_use`, `device_ask` and
        `devices_given` must be called."""
        return False

    def topology_key(self) -> Hashable:
        """Return a cache key for `node_labels`, `node_zones` and `node_devices`: their results change only if this key
        changes."""
        return ()

    def node_zones(self, node: str) -> tuple[Zone, ...]:
        """Return the NUMA zones that the definitions state for a node. The scheduler uses them only if the node itself
        declares no zones."""
        return ()

    def node_labels(self, node: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the topology labels that the definitions add to a node. `labels`: the labels that the node itself
        has."""
        return {}

    def options_key(self) -> Hashable:
        """Return a cache key for `pod_options`: its results change only if this key changes."""
        return ()

    def pod_options(self, pod: Object) -> Mapping[str, str]:
        """Return Phalanx options of a pod that follow from the definitions, in addition to the options from the pod's
        own labels and annotations (`Dialect.options_of`)."""
        return {}

    def part_use(self, pod: Object) -> PartUse | None:
        """Return the reserved parts of nodes (`NodePart`) that the pod may use, or must use; None if it may use no such
        part."""
        return None

    def placed(self, stand_in: StandIn, node: str, now: str) -> Object:
        """Return the new status of the object that `stand_in` represents, after the scheduler placed the stand-in on
        `node`. `now`: the present time as a metav1.Time."""
        return {}

    def node_devices(self, node: str) -> tuple[Device, ...]:
        """Return the devices that the definitions state for a node. The scheduler ignores the devices of a resource if
        the node itself lists devices of that resource."""
        return ()

    def devices_given(self, pod: Object) -> tuple[str, ...]:
        """Return the devices of a pod that another scheduler placed. This function reads them from the dialect's
        annotations on the pod."""
        return ()

    def device_ask(self, pod: Object) -> DeviceAsk | None:
        """Return the device request that the pod makes with the dialect's annotations; None if the pod makes no such
        request."""
        return None

    def at_binding(self, pod: Object, node: str, part: str, devices: tuple[str, ...]) -> Mapping[str, str]:
        """Return the annotations that the scheduler adds to a pod when it binds the pod to `node`. `part`: the name of
        the reserved part of the node that the pod uses; empty if it uses no part. `devices`: the names of the pod's
        devices."""
        return {}


class Owner(NamedTuple):
    """A reference to an object."""

    group: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The settings of one gang in the gang's own objects (jobs or pods). A dialect's function `claim` reads these
    settings.

    `gang`: the gang's id. `queue`: the queue name in the labels of its objects. `options`: the options of Phalanx and
    of the dialect. `requests`: the different resource requests of its pods. `owner`: the first object that forms the
    gang. `priority`: the highest priority of its pods."""

    gang: str
    namespace: str
    queue: str
    options: Mapping[str, str]
    requests: frozenset[Amounts] = frozenset()
    owner: Owner | None = None
    priority: int = 0

    @property
    def asks(self) -> frozenset[str]:
        """Return the names of the resources that the gang's pods request."""
        return frozenset(resource for each in self.requests for resource, _ in each)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleClaim:
    """The settings that the definitions contain for one role of a gang of bare pods. (A *bare* pod belongs to no job.)
    `minimum`: the number of this role's pods that must start together with the gang. `group`: the name of the role's
    subgroup, which the annotation `phalanx.dev/subgroups` declares."""

    minimum: int
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClaim:
    """The settings of an object that declares a gang of bare pods.

    `minimum`: the number of pods that must exist before any pod of the gang starts. The oldest pods then start
    together.
    `of_role`: for each role, how many of the `minimum` pods must have this role.
    `whole`: the requests of the whole gang (cpu in millicores, others in whole units). If these are larger than the
    requests of the existing pods, the difference is reserved for later pods.
    `by_priority`: True if the pods with the highest priority start first; False if the oldest pods start first."""

    minimum: int = 1
    by_priority: bool = False
    of_role: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUpdate:
    """The fields that Phalanx adds to the pod template of one role when it starts the gang. Phalanx removes them when
    the gang is stopped again."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The settings that a dialect's definitions contain for one gang. `Dialect.claim` returns them.

    `queue`: the gang's queue in the tree; empty for the default queue.
    `priority`: a priority that replaces the priority of the gang's pods; None to keep the priority of the pods.
    `blocked`: why the gang may not start even if there is capacity for it. `drained`: True if a running gang may not
    continue to run either, so that Phalanx stops it. `options`: Phalanx options that replace the options of the gang's
    objects. `roles`: for a gang of bare pods, the settings of each role. Pods of roles without settings start with the
    gang, but the gang does not wait until they exist.
    `group`: for a gang of bare pods, the settings of all its pods together. If `roles` is set, `group` only determines
    how many pods must exist.
    `gate`: why the gang may not run yet, even after the scheduler has reserved nodes and quota for it. While `gate` is
    set, Phalanx resumes no Job of the gang. `silent`: True if Phalanx writes no answers for the gang.
    `updates`: for each pod set, the fields that Phalanx adds to its pod template when the gang starts and has no gate.
    `about`: the kind and key of an object that affects the gang, although the object does not name the gang. The object
    may not exist yet. Phalanx reconciles the gang when the object is created or changed.
    `evicted_as`: type and reason of the condition that Phalanx sets on a bare pod before it evicts the pod.
    `queues`: queues that the gang needs in the tree and that no definition declares, with parents before their
    children. Phalanx removes such a queue from the tree when no gang's claim contains it any more.
    `charging`: a function that computes from the requests of a pod the amounts that are charged to its queue; None if
    the requests themselves are charged.
    `account`: the account to which its queue charges the gang's usage; empty if the usage is charged to the gang's
    user. `submitted_s`: when the gang was submitted (seconds since the epoch); None for the creation time of its oldest
    object.
    `clusters`: the other clusters that may run the gang. None: the definitions name no clusters. Then the
    gang runs in this cluster, or in any other cluster if its Jobs request another cluster.
    `note`: (text, certain). `text`: what the autoscaler reports about the nodes that it creates for the gang, as a part
    of a sentence. `certain`: True if it is certain that these nodes will arrive.
    `hold_s`: the number of seconds for which a started gang keeps capacity for its later pods; None for the default of
    all gangs."""

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
    """Return the reason why a gang waits if its pods name a PodGroup that does not exist."""
    text = f"the PodGroup {name} of its pods does not exist yet: create it"
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text)


class GangStage(StrEnum):
    """The stage of a gang. RESERVED: nodes and quota are reserved for the gang, and it waits until `Claim.gate` is
    None. LEAVING: the gang is preempted or its start is taken back, and some of its pods still exist."""

    WAITING = "waiting"
    RESERVED = "reserved"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """A role of a gang.

    `count`: the number of pods that the user requests. `minimum`: the number of pods without which the gang does not
    start. `placed`: the number of pods to which the scheduler has given capacity; 0 before the start.
    `request`: the resource requests of one pod. `flavor`: the flavor on which the role was started; empty if there is
    none.
    `template`: the pod template as the user wrote it.
    `succeeded`, `ready`: the numbers of succeeded and of ready pods.
    `reclaimable`: the number of placed pods that are no longer needed, so that their capacity can be used by other
    jobs.
    `places`: for each node with pods of the role, the labels of the node and the number of these pods."""

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
    """The loss of a gang's nodes. It is passed to the dialect once, with the next state of the gang (`GangView`).
    `reason`: why the gang lost its nodes. `preempted`: True if the gang was preempted; False if the scheduler took back
    its start. `preemptor`: the gang that preempted it, if this gang is known."""

    reason: Reason
    preempted: bool = False
    preemptor: GangView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangView:
    """The state of a gang that Phalanx passes to the functions of a dialect.

    `owners`: the objects that form the gang, oldest first. `kind`: the kind of these objects; PodGroup if they are bare
    pods. `options`: the gang's Phalanx options. `queue`: its queue in the tree. `reason`: why the gang waits.
    `evicted`: how the gang lost its nodes, if it lost them after the previous `GangView` was passed to the dialect.
    `created_s`: when the gang was created (seconds since the epoch)."""

    id: str
    namespace: str
    kind: str
    owners: tuple[Object, ...]
    options: Mapping[str, str]
    queue: str
    priority: int
    stage: GangStage
    pod_sets: tuple[PodSet, ...]
    reason: Reason | None = None
    evicted: Eviction | None = None
    outcome: Outcome | None = None
    created_s: float = 0.0


BROUGHT_BY = "phalanx.dev/dialect"  # a label of objects that Phalanx installs for a dialect; its value is the name
# Fields in the status of an answer object that other programs write and that `Dialect.claim` reads.
READ_BACK = ("admission", "admissionChecks", "requeueState", "nominatedClusterNames")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The desired state of one object of the dialect's API. `phalanx.kube` compares it with the object and writes the
    difference.

    `body`: the object to create if it does not exist; None if Phalanx must not create it.
    `spec`: the desired fields of the spec of an existing object. `status`: the desired status; None if Phalanx must not
    write the status.
    `finalizers`: the desired finalizers; None if Phalanx does not change the finalizers. `annotations`: the desired
    annotations. `metadata`: further desired metadata, namely labels and owner references. `again_s`: when the answer
    must be computed again even if nothing changes before (seconds since the epoch).
    `plain`: True if the kind has no status subresource, so that Phalanx writes the status together with the other
    fields.
    `gone`: True if the object must be deleted. `uid`: Phalanx deletes the object only if it has this uid; empty if the
    uid does not matter."""

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
    """A Kubernetes event that Phalanx records. `about`: the object that the event is about; it includes its kind.
    `warning`: True if the event's type is Warning."""

    about: Object
    reason: str
    text: str
    warning: bool = False


# A function that returns the events that the other scheduler would record when Phalanx writes an object. Its parameters
# are the gang, the object before the write (None if the write created it), and the object after the write.
Occurrences: TypeAlias = Callable[[GangView, Object | None, Object], Iterable[Occurrence]]
Defined = TypeVar("Defined", bound=Definitions)
Read = TypeVar("Read", bound=Definitions, contravariant=True)


class OptionsOf(Protocol):
    def __call__(self, kind: str, meta: Mapping[str, object], scheduler: str = "") -> Mapping[str, str]: ...


def no_answers(*of: object) -> Iterable[Answer]:
    """Return no answers. A dialect that writes no objects uses this function as `Dialect.answer` and
    `Dialect.statuses`."""
    return ()


def of_pods(options_of: Callable[[Mapping[str, Any], str], Mapping[str, str]]) -> OptionsOf:
    """Return a function that a dialect can use as `Dialect.options_of` if it reads labels and annotations of pods only.
    `options_of`: a function that returns the options of a pod from the pod's metadata and scheduler name."""
    return lambda kind, meta, scheduler="": options_of(meta, scheduler) if kind == "Pod" else {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # dialects are keys of dicts, but their fields have no hash
class Dialect(Generic[Defined]):
    """A dialect: the names and kinds of another scheduler's API, and the functions that read and write its objects.

    `scheduler_names`: the values of `schedulerName` in the pods that belong to this dialect. Phalanx binds these pods.
    `definition_kinds`: the kinds that `define` reads. `by_status`: for some of these kinds, the fields of the status
    that `define` reads in addition to the spec. `answer_kinds`: the kinds that Phalanx writes.
    `crds`: the file with the API's CustomResourceDefinitions. Phalanx creates the missing ones of these definitions.
    Empty if the API has no definitions.
    `policies`: admission policies that replace the other scheduler's webhooks, and further objects that Phalanx
    installs.

    `define(objects)` translates all definition objects. It raises no exception. An object that it cannot read becomes a
    queue that starts no jobs.
    `options_of(kind, meta, scheduler)` returns the Phalanx options that follow from an object's labels and annotations;
    an empty mapping if there are none. `meta`: the object's metadata with up to three further keys. `template` has the
    metadata of the object's pods, `group` has the group that a pod's spec names, and `priority` has the class and the
    value of a pod's priority. `scheduler`: the scheduler name of a pod.
    `claim(defined, said, objects)` returns the settings of a gang; None if the gang does not belong to this dialect.
    The settings follow from the definitions (`defined`), from the gang's own options (`said`), and from the changes
    that users made to the answer objects (`objects`).
    `notes(kind, obj)` returns one sentence for each part of an object that has no effect in Phalanx, and the sentence
    contains the reason. `obj`: a definition, or a job with the dialect's labels.
    `gang_of(answer)` returns the id of the gang to which an answer object belongs; empty if it belongs to none.
    `answer(defined, told, objects, now)` returns the answers for one gang (`told`). `objects`: the existing objects of
    `answer_kinds`. `now`: the present time as a metav1.Time.
    `statuses(defined, everyone, objects, now)` returns the answers for the definitions, such as the statuses of queues.
    `everyone`: all gangs of the dialect."""

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
    answer: Callable[[Defined, GangView, Objects, str], Iterable[Answer]] = no_answers
    statuses: Callable[[Defined, Iterable[GangView], Objects, str], Iterable[Answer]] = no_answers


class Figures(Protocol[Read]):
    """Metrics under the names that the other scheduler uses. Phalanx updates them while it writes answers."""

    def wrote(self, defined: Read, told: GangView, kind: Kind, before: Object, after: Object) -> None:
        """Update the counters after an answer object was written. `before`, `after`: the object before and after the
        write."""

    def look(self, defined: Read, everyone: Iterable[GangView], objects: Objects) -> None:
        """Compute the values of the gauges from all gangs of the dialect and from the existing answer objects."""

    def families(self) -> Iterable[MetricFamily]:
        """Return the metrics as of the last `look`. The cost grows with the number of queues, but not with the number
        of jobs."""


class GangHistory(Protocol):
    """A history of a dialect's gangs, from which the scheduler serves HTTP requests about the past. Its size is
    bounded. It exists while this process is the leader among the scheduler's replicas."""

    def saw(self, before: GangView | None, after: GangView | None, now_s: float) -> None:
        """Record a change of a gang. `before`: the gang before the change; None if it did not exist. `after`: the gang
        after the change; None if it no longer exists."""

    def view(self, path: Sequence[str], query: Mapping[str, str], now_s: float) -> Object | list[Object] | None:
        """Return the response to an HTTP request for `path`, in the form in which a `View` returns it. Return None if
        the journal does not serve the path."""

    def stream(self, path: Sequence[str], query: Mapping[str, str]) -> Iterator[Sequence[Object]] | None:
        """Return an iterator over future records, or None if there is no stream at this path with this query. Each step
        yields the records since the last step; there may be none. The iterator ends if its reader is so slow that
        records had to be dropped."""


class View(Protocol[Read]):
    """An API group, or a path outside API groups, whose responses the scheduler computes from its state. The API server
    stores no objects of this group."""

    def __call__(
        self,
        defined: Read,
        everyone: Iterable[GangView],
        objects: Objects,
        path: tuple[str, ...],
        query: Mapping[str, str],
    ) -> Object | list[Object]:
        """Return the response to a request. `path`: the path below the group; its first part is the API version.
        `objects`: the objects of `answer_kinds`, and nodes. To refuse a request, return a Status object with an HTTP
        code, or an object with a `status_code`."""
