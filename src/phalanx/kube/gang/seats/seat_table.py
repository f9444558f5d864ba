"""The table of a started gang's seats (places for pods). It stores the node and the pod of each seat.

A seat is the place for one pod of the gang; the core calls it a slot of the job. A seat is *planned* when it has a
node, *taken* when a pod is assigned to it, and *bound* when that pod is bound to the node. When a pod is lost, its seat
stays: the pod that the Job creates as a replacement takes this seat, and so gets the capacity of the lost pod. An
operation for one pod takes the same time in a small and in a large gang.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from phalanx.kube.capacity.node_parts import node_and_part
from phalanx.kube.gang.spec.members import BarePods, FuturePods, JobPods, PodSource
from phalanx.kube.read.labels import ROLE
from phalanx.kube.read.pod import Pod
from phalanx.model.job import Placement, Role, Slot


@dataclass(slots=True, eq=False)
class Seat:
    """The place for one pod of a started gang. `pod`: the uid of the pod in this seat; "" if the seat is vacant.
    `node`: the node that the core granted; "" if there is none. `devices`: the devices of the node that the pod gets.
    `asked`: True if a node for this seat was requested from the core. `sent`: True if a binding was sent that the API
    server has not answered yet. `lost_s`: the time at which the seat lost its last pod, in seconds since the epoch; 0
    if the seat never had a pod."""

    slot: Slot
    node: str = ""
    devices: tuple[str, ...] = ()
    pod: str = ""
    bound: bool = False
    sent: bool = False
    asked: bool = False
    ready: bool = False  # the seat's pod is bound, or can be bound to the planned node
    reached: bool = False
    refusals: int = 0
    lost_s: float = 0.0

    @property
    def machine(self) -> str:
        """Return the name that the seat's node has in the API. (If the seat is in a reserved part of a node, the core
        uses a node name of its own for this part.)"""
        return node_and_part(self.node)[0]


@dataclass(slots=True)
class RoleSeats:
    """The seats (places for pods) of one role. `number`: the role's number in the job. `job`: the uid of the Job that
    creates the pods of this role; "" if no Job does. `seats`: ordinal -> seat. `vacant`: the ordinals of those seats
    that have no pod. `left_out`: True if this start runs without the role, because the role's group does not need
    it."""

    number: int
    role: Role
    source: PodSource
    job: str = ""
    seats: dict[int, Seat] = field(default_factory=dict)
    vacant: dict[int, None] = field(default_factory=dict)
    index: dict[int, int] = field(default_factory=dict)  # completion index of a pod -> the ordinal of its last seat
    ready: int = 0
    bound: int = 0
    reached: int = 0  # seats whose pod was ever bound, even if that pod has ended since
    left_out: bool = False

    @property
    def least(self) -> int:
        """Return the number of pods of this role that the gang needs to start and to continue."""
        return 0 if self.left_out else self.role.minimum

    @property
    def awaited(self) -> bool:
        """Return True if the start waits until the pods of this role exist. Return False if these pods are created only
        after other pods of the gang run."""
        return not isinstance(self.source, FuturePods) and not (isinstance(self.source, JobPods) and self.source.later)

    @property
    def taken(self) -> int:
        return len(self.seats) - len(self.vacant)

    def add(self, ordinal: int, node: str = "") -> Seat:
        seat = self.seats[ordinal] = Seat(Slot(self.number, ordinal), node)
        self.vacant[ordinal] = None
        return seat

    def next_ordinal(self) -> int:
        return max(self.seats, default=-1) + 1


def bare_pods_like(pod: Pod) -> BarePods:
    """Return the `BarePods` object that identifies the role of this bare pod (a pod without a Job). The objects are
    equal for bare pods with the same role label and the same shape."""
    return BarePods(pod.options.get(ROLE, ""), pod.shape)


class GangSeats:
    """All seats (places for pods) of a gang. `rows[i]` contains the seats of role `i` of the job."""

    def __init__(self, roles: Iterable[Role] = (), sources: Iterable[PodSource] = ()) -> None:
        self.rows: list[RoleSeats] = []
        self.of_pod: dict[str, Seat] = {}  # pod uid -> its seat
        self.of_job: dict[str, int] = {}  # Job uid -> the role of its pods
        self.held: int | None = None  # the role of pods that are created later; its seats reserve capacity for them
        for role, source in zip(roles, sources, strict=True):
            self.add_role(role, source)

    def __getitem__(self, slot: Slot) -> Seat:
        return self.rows[slot.role].seats[slot.ordinal]

    def __contains__(self, slot: Slot) -> bool:
        return slot.role < len(self.rows) and slot.ordinal in self.rows[slot.role].seats

    def all(self) -> Iterator[Seat]:
        for row in self.rows:
            yield from row.seats.values()

    def role_of(self, source: PodSource) -> int | None:
        if isinstance(source, JobPods):
            return self.of_job.get(source.uid)
        return next((row.number for row in self.rows if row.source == source), None)

    def role_of_pod(self, pod: Pod, jobs: Collection[str]) -> int | None:
        """Return the role of the pod; None if no role is planned for such pods. `jobs`: the uids of the gang's Jobs."""
        if pod.owner is not None and pod.owner[1] in jobs:
            return self.of_job.get(pod.owner[1])
        return self.role_of(bare_pods_like(pod))

    @property
    def roles(self) -> tuple[Role, ...]:
        return tuple(row.role for row in self.rows)

    def short_of_jobs(self) -> list[tuple[RoleSeats, int]]:
        """Return the roles of Jobs with too few bound pods, each with its minimum number of pods. A pod that has ended
        after it was bound still counts as bound."""
        return [(row, least) for row in self.rows if row.job and row.reached < (least := row.least)]

    # --- planning -------------------------------------------------------------------------------------------------

    def add_role(self, role: Role, source: PodSource) -> RoleSeats:
        row = RoleSeats(len(self.rows), role, source, source.uid if isinstance(source, JobPods) else "")
        self.rows.append(row)
        if row.job:
            self.of_job.setdefault(row.job, row.number)
        elif isinstance(source, FuturePods) and self.held is None:
            self.held = row.number
        return row

    def start(self, placements: Sequence[Placement], *, whole: bool) -> int:
        """Store the planned nodes of a start in the seats (places for pods), and return the number of pods that the
        gang needs. `whole`: True if all pods of the minimum must start together. In this case, a role of which no pod
        was placed is left out of the start."""
        placed = {placement.role for placement in placements}
        for row in self.rows if whole else ():
            row.left_out = row.number not in placed
        self.plan(placements)
        return self.least

    def plan(self, placements: Iterable[Placement]) -> list[Slot]:
        """Store the nodes of these placements in the seats (places for pods), and add the seats that do not exist yet.
        Return the slots whose role does not exist."""
        unknown = []
        for role, ordinal, node, devices in placements:
            if role >= len(self.rows):
                unknown.append(Slot(role, ordinal))
                continue
            row = self.rows[role]
            seat = row.seats.get(ordinal) or row.add(ordinal)
            if not seat.bound:
                seat.node, seat.devices, seat.asked = node, devices, False
        return unknown

    def placements(self) -> tuple[Placement, ...]:
        return tuple(Placement(*seat.slot, seat.node, seat.devices) for seat in self.all() if seat.node)

    def wanting(self) -> tuple[Slot, ...]:
        """Return the slots that have no node, and record that nodes for them are now requested from the core."""
        found = [seat for seat in self.all() if not seat.node]
        for seat in found:
            seat.asked = True
        return tuple(seat.slot for seat in found)

    # --- taking ---------------------------------------------------------------------------------------------------

    def take(self, role: int, pod: Pod) -> Seat:
        """Assign a seat (a place for one pod) to this pod, and return the seat. A pod with a completion index gets the
        seat of the earlier pod with the same index, or else the planned seat whose ordinal is this index, if that seat
        is vacant. Any other pod gets a vacant planned seat, any vacant seat, or a new seat, in this order. (To shrink,
        a Job controller deletes the pods with the highest indexes, and the core gives up the highest ordinals.)"""
        row = self.rows[role]
        ordinal = row.index.get(pod.index, _planned(row, pod.index)) if pod.index is not None else None
        if ordinal is None or ordinal not in row.vacant:
            ordinal = _vacant(row)
        if ordinal is None:
            ordinal = row.next_ordinal()
            row.add(ordinal)
        del row.vacant[ordinal]
        if pod.index is not None:
            row.index[pod.index] = ordinal
        seat = self.of_pod[pod.uid] = row.seats[ordinal]
        seat.pod = pod.uid
        return seat

    def leave(self, uid: str, now_s: float) -> Seat | None:
        """Remove a pod that has ended or was deleted from its seat, and return the seat; None if the pod had no seat.
        The seat keeps its node."""
        seat = self.of_pod.pop(uid, None)
        if seat is None:
            return None
        self.mark(seat, ready=False, bound=False)
        seat.pod, seat.sent, seat.lost_s = "", False, now_s
        self.rows[seat.slot.role].vacant[seat.slot.ordinal] = None
        return seat

    def hand_over(self, seat: Seat) -> str:
        """Use the node of this vacant seat for another pod of the same role: move a pod from a seat without a node to
        this seat. Return the moved pod; "" if no pod waits for a node. If a replacement for the lost pod is created
        later, it gets the seat without a node."""
        row = self.rows[seat.slot.role]
        waits = (ordinal for ordinal, other in row.seats.items() if other.pod and not other.node)
        if not seat.node or (ordinal := next(waits, None)) is None:
            return ""
        former = row.seats[ordinal]
        seat.pod, former.pod, former.lost_s = former.pod, "", seat.lost_s
        row.vacant[ordinal] = row.vacant.pop(seat.slot.ordinal)
        self.of_pod[seat.pod] = seat
        return seat.pod

    def mark(self, seat: Seat, *, ready: bool, bound: bool) -> None:
        row = self.rows[seat.slot.role]
        row.ready += ready - seat.ready
        row.bound += bound - seat.bound
        seat.ready, seat.bound = ready, bound
        if bound and not seat.reached:
            seat.reached = True
            row.reached += 1

    def drop(self, slot: Slot) -> None:
        """Remove the seat of this slot; the seat must have no pod."""
        row = self.rows[slot.role]
        del row.seats[slot.ordinal]
        del row.vacant[slot.ordinal]

    # --- questions ------------------------------------------------------------------------------------------------

    def complete(self) -> bool:
        """Return whether all pods for which the start waits exist, and each is bound or can be bound now."""
        return all(row.ready >= row.least for row in self.rows if row.awaited)

    def started(self) -> bool:
        """Return whether every pod of the gang's minimum was bound at least once."""
        return all(row.reached >= row.least for row in self.rows if row.awaited)

    @property
    def least(self) -> int:
        """Return the number of pods that the gang needs to start and to continue."""
        return sum(row.least for row in self.rows)

    @property
    def taken(self) -> int:
        return sum(row.taken for row in self.rows)

    @property
    def minimum_ready(self) -> int:
        """Return how many of the needed pods are bound or can be bound now."""
        return sum(min(row.ready, row.least) for row in self.rows)

    @property
    def minimum_bound(self) -> int:
        return sum(min(row.bound, row.least) for row in self.rows)

    def lacks_members(self) -> bool:
        """Return whether any role has unbound pods, and fewer bound pods than its minimum."""
        return any(row.bound < row.least and row.taken > row.bound for row in self.rows)

    def vacant_of_pods(self) -> list[Slot]:
        """Return the seats without a pod of all roles whose pods are not created by a Job."""
        return [Slot(row.number, ordinal) for row in self.rows if not row.job for ordinal in row.vacant]

    def surplus(self, role: int, wanted: int) -> list[Slot]:
        """Return the vacant seats that must be removed from the role so that only `wanted` seats remain. Seats without
        a node come first, then the seats with the highest ordinals."""
        row = self.rows[role]
        excess = min(len(row.seats) - wanted, len(row.vacant))
        if excess <= 0:
            return []
        order = sorted(row.vacant, key=lambda ordinal: (bool(row.seats[ordinal].node), -ordinal))
        return [Slot(role, ordinal) for ordinal in order[:excess]]


def _planned(row: RoleSeats, ordinal: int) -> int | None:
    return ordinal if ordinal in row.vacant and row.seats[ordinal].node else None


def _vacant(row: RoleSeats) -> int | None:
    for ordinal in row.vacant:
        if row.seats[ordinal].node:
            return ordinal
    return next(iter(row.vacant), None)
