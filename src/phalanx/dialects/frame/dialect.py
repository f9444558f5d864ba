"""What a dialect is: another scheduler's API, taken in and answered by three parts.

- *Definitions*: its queues, quotas, flavors and priorities as our one queue tree (`Dialect.define`).
- *Gangs*: its labels, annotations and job kinds in our words (`words`), and what the definitions say of one gang
  (`claim`): its queue in the tree, its priority, why it may not start.
- *Answers*: what was decided, as its own users read it: status, conditions, objects of its own (`answers`).

Each part is a table or a pure function. `kube` watches the kinds that a dialect names, calls the parts, tells the core
what changed and writes what is answered; it knows no dialect by name. Adding one adds a folder here and one entry in
`phalanx.dialects.enabled`. Several work at once, since each only adds queues to the tree and words to objects.

What of an object has no effect is never dropped in silence: every field stands in a table with its `Use`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from phalanx.client.kind import Kind
from phalanx.client.tally import Family
from phalanx.model.job import Outcome
from phalanx.model.node import Device, Flavor, Topology, Zone
from phalanx.model.pod import Amounts, DeviceShare, Toleration
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason

Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = Mapping[Kind, Mapping[str, Object]]  # by kind, then by `namespace/name` or `name`
Charging: TypeAlias = Callable[[Amounts], Amounts]  # what a queue is charged with for a pod that asks so much


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePart:
    """A part of a node that is kept for some pods (`Definitions.part_use`): a node of its own, by which the other is
    smaller. `name`: of no other part that there is, or was. `closed`: no more pods may come. What runs in a part that
    is no more runs on its node."""

    name: str
    node: str
    allocatable: Amounts
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUse:
    """The parts of nodes that a pod may use, and rather uses than other nodes; with `required` it uses no others."""

    names: tuple[str, ...]
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAsk:
    """The devices that a pod asks for in words of a dialect, `instead` of those of its resources: so many `whole` ones,
    and a share. `aligned`: as `Shape.aligned`. `wrong`: why nothing can be given for them."""

    instead: frozenset[str]
    whole: Amounts = ()
    share: DeviceShare | None = None
    aligned: str = ""
    wrong: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A pod that stands for an object which wants room without one: it waits and is placed as a pod is, but there is
    none, and where it goes is written into the status of the object (`Definitions.placed`). `pod`: as the API would
    have it, with the object's uid and a name that no pod can have. `asks`: what it needs."""

    kind: Kind
    key: str
    pod: Object
    asks: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The definitions of a dialect, in ours. `queues` and `flavors` have names that no other dialect uses: a kind,
    a slash, theirs. One dialect's queues may have their own names; a queue of ours counts before one of these.
    `topologies`: hierarchies of node labels beside those of the policy; their labels need not stand on the nodes
    (`node_labels`). `parts`: of nodes, that are kept. `stand_ins`: for objects that wait for room."""

    queues: tuple[Queue, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    topologies: tuple[Topology, ...] = ()
    parts: tuple[NodePart, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()

    @property
    def about_pods(self) -> bool:
        """Return whether anything of it is about single pods: `words_of`, `part_use`, `device_ask`."""
        return False

    def places(self) -> Hashable:
        """Return what `node_labels`, `node_zones` and `node_devices` follow from."""
        return ()

    def node_zones(self, node: str) -> tuple[Zone, ...]:
        """Return the NUMA zones of a node that does not say any itself."""
        return ()

    def node_labels(self, node: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the labels of `topologies` that a node has beside its own `labels`."""
        return {}

    def joins(self) -> Hashable:
        """Return what `words_of` follows from."""
        return ()

    def words_of(self, pod: Object) -> Mapping[str, str]:
        """Return words of ours that count of a pod beside those that it says itself (`Dialect.words`)."""
        return {}

    def part_use(self, pod: Object) -> PartUse | None:
        """Return which parts of nodes the pod may use; None: none, and it asks for none."""
        return None

    def placed(self, stand_in: StandIn, node: str, now: str) -> Object:
        """Return the status of an object that was given room on a node. `now`: as a metav1.Time."""
        return {}

    def node_devices(self, node: str) -> tuple[Device, ...]:
        """Return the devices of a node, besides those of resources of which it lists some itself."""
        return ()

    def devices_given(self, pod: Object) -> tuple[str, ...]:
        """Return the devices that a pod on a node has by words of the dialect, if ours do not say it: another scheduler
        placed it."""
        return ()

    def device_ask(self, pod: Object) -> DeviceAsk | None:
        """Return what the pod asks of devices in words of the dialect; None: nothing."""
        return None

    def at_binding(self, pod: Object, node: str, part: str, devices: tuple[str, ...]) -> Mapping[str, str]:
        """Return the annotations that a pod is given with its place on a node: in that part of it (empty: in none),
        with these devices."""
        return {}


class Owner(NamedTuple):
    """An object, by name."""

    group: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The words of one gang (`gang`: its id). `queue`: the queue as its words name it. `options`: its words, ours and
    the dialect's. `requests`: of its pods, each once. `owner`: the first of the objects that form it. `priority`: the
    highest of its pods."""

    gang: str
    namespace: str
    queue: str
    options: Mapping[str, str]
    requests: frozenset[Amounts] = frozenset()
    owner: Owner | None = None
    priority: int = 0

    @property
    def asks(self) -> frozenset[str]:
        """Return the resources that its pods ask for."""
        return frozenset(resource for each in self.requests for resource, _ in each)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleClaim:
    """The claim of the definitions about the bare pods of one role. `minimum`: so many of them start with the gang.
    `group`: the group that they belong to, of those that the words `phalanx.dev/subgroups` declare."""

    minimum: int
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClaim:
    """The claim of an object that declares a gang of bare pods. `minimum`: so many of its pods exist before any starts,
    and the oldest start together. `of_role`: so many of each role are among these. `whole`: what all of the gang needs
    (cpu in millicores, else units); what its pods do not ask for of it is held for those to come."""

    minimum: int = 1
    of_role: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUpdate:
    """The words that a start puts into the template of the pods of one role, and that are taken out of it again."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim of the definitions about a gang. `queue`: its queue in the tree; empty: that of who names none.
    `priority`: instead of its pods' own. `blocked`: why it may not start whatever room there is; with `drained` it may
    not run either, and is taken back. `options`: words of ours that count instead of what its members say. `roles`: of
    a gang of bare pods, what is declared of each role; those that are not named start with the others, but nothing
    waits for them. `group`: what is declared of all its pods together; with `roles` only how many must exist. `gate`:
    why it may not run yet though it may have its room: the room is reserved, and nothing of it is resumed until that is
    so no more. `silent`: nothing is answered of it as long as it is so. `updates`: once there is no gate any more, what
    its start puts into its Jobs' templates, by the name of their pod set. `about`: an object of an answer kind, by its
    key, that need not be there yet and does not say whose it is: the gang is looked at again when it changes.
    `evicted_as`: type and reason of the condition that a bare pod of it is given before it is evicted. `queues`:
    queues, parents first, that no definition declares and that are there as long as gangs claim them. `charging`: what
    its queue is charged with for its pods; None: what they ask for. `account`: under which name its usage counts in its
    queue; empty: under its user's."""

    queue: str
    priority: int | None = None
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


class Stage(StrEnum):
    """How far a gang is. RESERVED: it has its room, and waits for what its claim's gate says. LEAVING: it gives way, or
    is taken back; its pods are not all gone."""

    WAITING = "waiting"
    RESERVED = "reserved"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """A role of a gang. `count`: pods it asks for; `minimum`: pods it needs; `placed`: pods that the start granted.
    `request`: of one pod. `flavor`: that of the start; empty: none. `template`: the pods' template as its user wrote
    it. `succeeded`, `ready`: of its pods, so many. `reclaimable`: so many of those granted it needs no more.
    `places`: the labels of each node that its pods have seats on, and how many."""

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
    """A start that ends, or has ended, since the gang was told last. `preempted`: it gives way to another; else it was
    taken back. `preemptor`: who gets the room, where that one is known."""

    reason: Reason
    preempted: bool = False
    preemptor: Told | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A gang, as a dialect is told of it. `owners`: the objects that form it, oldest first, as they were last seen.
    `kind`: theirs, or PodGroup where they are its pods. `queue`: in the tree. `reason`: why it waits. `created_s`: when
    it came."""

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


BROUGHT_BY = "phalanx.dev/dialect"  # label of what a scheduler's own installation brings: the dialect's name
# What of an answer's status others write, and claims read.
READ_BACK = ("admission", "admissionChecks", "requeueState")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An object of the dialect as it should be. `body`: what is created where it is absent; None: it is not ours to
    create. `spec`: what its spec should say where it is there. `status`: what its status should say; None: nothing of
    it is ours. `finalizers`: those that it should have; None: as they are. `again_s`: to be made anew then (seconds
    since the epoch), though nothing changes. `annotations`: what these of it should say. `metadata`: what else its
    metadata should say, of labels and owners. `plain`: its kind has no
    status subresource, so its status is written like the rest of it."""

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


Defined = TypeVar("Defined", bound=Definitions)
Read = TypeVar("Read", bound=Definitions, contravariant=True)


class Dialect(Protocol[Defined]):
    """A scheduler's API. `scheduler_names`: whose pods we bind. `definition_kinds`: watched, and read by `define`; of
    those in `by_status` these parts of the status count as well. `answer_kinds`: written. `crds`: the file, beside
    this one, of its CustomResourceDefinitions, which are made where they are absent; empty: it has none. `policies`:
    what its webhooks do, as admission policies, and what else its installation brings."""

    @property
    def name(self) -> str: ...
    @property
    def scheduler_names(self) -> frozenset[str]: ...
    @property
    def definition_kinds(self) -> tuple[Kind, ...]: ...
    @property
    def by_status(self) -> Mapping[Kind, tuple[str, ...]]: ...
    @property
    def answer_kinds(self) -> tuple[Kind, ...]: ...
    @property
    def crds(self) -> str: ...
    @property
    def policies(self) -> tuple[tuple[Kind, Object], ...]: ...

    def define(self, objects: Objects) -> Defined:
        """Return the definitions in our tree. Never raises: what cannot be read is a queue that is held."""

    def words(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        """Return what an object of that kind says, in our words; empty: nothing. `meta`: its metadata, beside which
        that of its pods stands as `template`, and what a pod's spec says of its group as `group`. `scheduler`: the name
        that a pod gives."""

    def claim(self, defined: Defined, said: Said, objects: Objects) -> Claim | None:
        """Return what the definitions, and what users wrote into our answers (`objects`), say of a gang; None: it is
        not of this dialect."""

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        """Return what of an object, a definition or a job with the dialect's words, has no effect, and why."""

    def gang_of(self, answer: Object) -> str:
        """Return the id of the gang that an object of `answer_kinds` is about; empty: it is about none."""

    def answer(self, defined: Defined, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        """Return what is answered of one gang. `objects`: those of `answer_kinds`, as they are; `now`: as a
        metav1.Time."""

    def statuses(self, defined: Defined, everyone: Iterable[Told], objects: Objects, now: str) -> Iterable[Answer]:
        """Return what is answered of the definitions, with all gangs of the dialect in view."""


class Figures(Protocol[Read]):
    """The metrics of a scheduler, under its own names. They are counted while answers are written."""

    def wrote(self, defined: Read, told: Told, kind: Kind, before: Object, after: Object) -> None:
        """Count what an answer about a gang, which was just written, changed."""

    def look(self, defined: Read, everyone: Iterable[Told], objects: Objects) -> None:
        """Look at all gangs of the dialect, and at the objects that it answers on, as they are."""

    def families(self) -> Iterable[Family]:
        """Return the metrics as they were last looked at; this costs what there are queues, not what there are jobs."""


class Journal(Protocol):
    """The memory of what happened to the gangs of a dialect, for those who ask later. It is kept while the process
    leads, and has bounds."""

    def saw(self, before: Told | None, after: Told | None, now_s: float) -> None:
        """Note how a gang was told, and how it is told now; None: it was, or is, not there."""

    def view(self, path: Sequence[str], query: Mapping[str, str], now_s: float) -> Object | list[Object] | None:
        """Return what is answered to a path as of `View`; None: the view answers it."""

    def stream(self, path: Sequence[str], query: Mapping[str, str]) -> Iterator[Sequence[Object]] | None:
        """Return what is said from now on, as far as it happened when it is asked for: nothing, where nothing did. It
        ends for a reader who is so slow that what he has not read is forgotten. None: there is no stream at that path,
        or not so."""


class View(Protocol[Read]):
    """An API group, or a path of no group, that is answered from what the scheduler knows; nothing of it is stored."""

    def __call__(
        self,
        defined: Read,
        everyone: Iterable[Told],
        objects: Objects,
        path: tuple[str, ...],
        query: Mapping[str, str],
    ) -> Object | list[Object]:
        """Return what is answered to a path below the group, version first; where that is no, a Status with its code,
        or what has a `status_code`. `objects`: those of `answer_kinds`, and nodes."""


class ServedOnly:
    """The base of a dialect whose objects are not read through the frame: it has definitions, refusals and notes."""

    def define(self, objects: Objects) -> Definitions:
        return Definitions()

    def words(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return {}

    def claim(self, defined: Definitions, said: Said, objects: Objects) -> Claim | None:
        return None

    def gang_of(self, answer: Object) -> str:
        return ""

    def answer(self, defined: Definitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        return ()

    def statuses(self, defined: Definitions, everyone: Iterable[Told], objects: Objects, now: str) -> Iterable[Answer]:
        return ()


# --- fields, and what becomes of them ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Becomes:
    """`field` of our model has it; `how`: with what difference, if any."""

    field: str
    how: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A field that has no effect here."""

    why: str


@dataclass(frozen=True, slots=True)
class Answered:
    """We write it, as the other scheduler would. `how`: with what difference, if any."""

    how: str = ""


Use: TypeAlias = Becomes | Ignored | Answered


def unused(values: Mapping[str, Any], table: Mapping[str, Use], path: str = "spec") -> Iterable[str]:
    """Yield what of `values` has no effect here, and why. Lists are looked through; a field's path has `[]` there."""
    for name, value in values.items():
        here = f"{path}.{name}" if path else name
        match table.get(here):
            case Becomes() | Answered():
                yield from _inside(value, table, here)
            case Ignored(why):
                yield f"{here} has no effect: {why}"
            case None if any(known.startswith((f"{here}.", f"{here}[].")) for known in table):
                yield from _inside(value, table, here)
            case None:
                yield f"{here} is not known here, and has no effect"


def _inside(value: Any, table: Mapping[str, Use], path: str) -> Iterable[str]:
    if not isinstance(value, (Mapping, list)):
        return  # most are plain, and looking through the table is dear
    if not any(known.startswith((f"{path}.", f"{path}[].")) for known in table):
        return
    if isinstance(value, Mapping):
        yield from unused(value, table, path)
    else:
        for one in value:
            if isinstance(one, Mapping):
                yield from unused(one, table, f"{path}[]")
