"""The bind barrier of one start, and the bindings that the barrier delays.

The *barrier* holds back all bindings until every pod of the gang's minimum can be bound. Before the first binding, the
planned nodes are checked once more. If a node no longer has the capacity, the core plans another node for its pod. If
all nodes have the capacity, all bindings are sent. A pod that is created later is bound as soon as it exists.

`Readiness` tracks the pods of a bound gang that have not been ready yet, if the gang's queue limits the time until all
pods are ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seat_table import Seat
from phalanx.kube.read.pod import Pod
from phalanx.model.event import Opened, Released
from phalanx.model.job import Slot

_SELECT_S = 10.0  # seconds after which the node is written on a volume claim again
_MOST_REST_S = 30.0


class BindBarrier:
    """The barrier of one start. `gate_open`: True once the barrier is open. `pending`: the seats (places for pods)
    whose pods can be bound but are not bound yet, by slot. `resting`: the slots whose binding was refused, each with
    the time at which another node is requested from the core."""

    def __init__(self, start: GangStart, *, gate_open: bool) -> None:
        self.gate_open = gate_open
        self.pending: dict[Slot, Seat] = {}
        self.resting: dict[Slot, float] = {}
        self._start, self._seats, self._effects = start, start.seats, start.effects
        self._selected: dict[str, tuple[str, float]] = {}  # pod -> (node on its volume claims, time of the write)

    def close(self) -> None:
        """Close the barrier, so that no pod is bound from now on."""
        self.gate_open = False
        self.pending.clear()
        self.resting.clear()

    def forget(self, uid: str) -> None:
        """Record that the pod has ended or was deleted."""
        self._selected.pop(uid, None)
        if (seat := self._seats.of_pod.get(uid)) is not None:
            self.pending.pop(seat.slot, None)

    def settle(self, seat: Seat) -> None:
        """Record that the pod in this seat (a place for one pod) is bound."""
        seat.sent = False
        self.pending.pop(seat.slot, None)
        self._seats.mark(seat, ready=True, bound=True)
        self.gate_open = True

    def open(self, seats: Iterable[Seat]) -> None:
        """Remove the planned nodes of these seats (places for pods), and request other nodes from the core."""
        seats = tuple(seats)
        for seat in seats:
            seat.node, seat.devices, seat.asked, seat.sent = "", (), True, False
            self._seats.mark(seat, ready=False, bound=False)
            self.pending.pop(seat.slot, None)
        if seats:
            self._effects.emit_event(Opened(self._start.id, tuple(seat.slot for seat in seats)))

    def release(self, slots: Iterable[Slot]) -> None:
        """Report to the core that these slots have no pod and are no longer needed. The core then releases their
        nodes."""
        slots = tuple(slots)
        for slot in slots:
            self._seats.drop(slot)
            self.resting.pop(slot, None)
            self._start.leaving.pop(slot, None)
        if slots:
            self._effects.emit_event(Released(self._start.id, slots))

    def advance(self) -> None:
        """Bind all pods that may be bound now."""
        self._ask_again()
        if self.gate_open or self._reached():
            self._bind()

    # --- internal -------------------------------------------------------------------------------------------------

    def _ask_again(self) -> None:
        now_s = self._effects.now_s()
        due = [slot for slot, at_s in self.resting.items() if at_s <= now_s]
        for slot in due:
            del self.resting[slot]
        self.open(seat for slot in due if slot in self._seats and (seat := self._seats[slot]).pod)

    def _reached(self) -> bool:
        if self._start.resuming or not self._seats.complete() or self._select_nodes():
            return False
        self.gate_open = self._reserve()
        return self.gate_open

    def _select_nodes(self) -> bool:
        """Return True if any pod with a planned node still waits for its volumes. Write the planned nodes on the volume
        claims of these pods. The write is repeated every `_SELECT_S` seconds, because a volume provisioner that rejects
        a node removes the node from the claim."""
        now_s, waits = self._effects.now_s(), False
        for seat in self.pending.values():
            pod = self._start.objects.pods[seat.pod]
            if not pod.unplaced or seat.sent:
                continue
            waits = True
            node, at_s = self._selected.get(pod.uid, ("", 0.0))
            if node != seat.node or now_s - at_s >= _SELECT_S:
                self._selected[pod.uid] = seat.node, now_s
                self._start.since_s = now_s if node != seat.node else self._start.since_s
                self._effects.pods.select_node(pod, seat.node)
        return waits

    def _reserve(self) -> bool:
        """Check the nodes once more before the first binding. If all nodes have the capacity, charge the pods to them,
        and return True. Otherwise request other nodes for the pods whose nodes lack the capacity."""
        seats = tuple(self.pending.values())
        lost = self._claim(seats)
        if lost:
            for seat in seats:
                self._effects.allocations.release(seat.pod)
            self.open(seat for seat in seats if seat.pod in lost)
        return not lost

    def _claim(self, seats: Sequence[Seat]) -> set[str]:
        """Charge the pods in these seats to their planned nodes. Return the pods whose node lacks the capacity."""
        pods = self._start.objects.pods
        return self._effects.allocations.claim([(seat.pod, seat.node, pods[seat.pod].shape) for seat in seats])

    def _bind(self) -> None:
        self._select_nodes()
        pods = self._start.objects.pods
        seats = [seat for seat in self.pending.values() if not seat.sent and not pods[seat.pod].unplaced]
        lost = self._claim(seats)
        for seat in seats:
            if seat.pod not in lost:
                seat.sent = True
                self._send(pods[seat.pod], seat.node, seat.devices)
        if lost:
            self._start.since_s = self._effects.now_s()
            self.open(seat for seat in seats if seat.pod in lost)

    def _send(self, pod: Pod, node: str, devices: tuple[str, ...]) -> None:
        is_bare = pod.owner is None or pod.owner[1] not in self._start.objects.jobs

        def answered(answer: WriteOutcome, text: str) -> None:
            self._answered(pod, node, answer)

        record = self._start.record if is_bare else None
        self._effects.pods.bind(self._start.id, pod, node, devices, record, answered)

    def _answered(self, pod: Pod, node: str, answer: WriteOutcome) -> None:
        seat = self._seats.of_pod.get(pod.uid)
        if answer is not WriteOutcome.DONE:
            self._effects.allocations.release(pod.uid)
        if seat is None or pod.uid not in self._start.objects.pods:
            return
        if pod.pinned and answer is WriteOutcome.DONE:
            return  # only the pod's scheduling gate was removed: another scheduler binds the pod later
        seat.sent = False
        if seat.bound or seat.node != node:
            return
        if answer is WriteOutcome.DONE:
            self.settle(seat)
        elif answer in {WriteOutcome.REFUSED, WriteOutcome.CHANGED}:
            seat.refusals += 1
            seat.node = ""
            self._seats.mark(seat, ready=False, bound=False)
            self.pending.pop(seat.slot, None)
            self.resting[seat.slot] = self._effects.now_s() + min(_MOST_REST_S, 0.1 * 2.0**seat.refusals)


class Readiness:
    """The pods of a bound gang that have not been ready yet. `bound_s`: when the last pod of the minimum was bound
    (seconds since the epoch)."""

    def __init__(self, bound_s: float, unready: Iterable[str] = ()) -> None:
        self.bound_s = bound_s
        self._unready = dict.fromkeys(unready)

    def see(self, pod: Pod) -> bool:
        """Stop waiting for the pod if it is ready. Return True if it was the last pod that was not ready."""
        if not pod.ready or not self._unready:
            return False
        self._unready.pop(pod.uid, None)
        return not self._unready

    def lose(self, uid: str) -> None:
        """Record that the pod has ended or was deleted."""
        self._unready.pop(uid, None)

    def ends_s(self, limit_s: float | None) -> float:
        """Return the time at which the start is undone unless all pods are ready by then; 0 means never. `limit_s`: the
        time in seconds that the queue allows; None for no limit."""
        return self.bound_s + limit_s if self._unready and limit_s is not None else 0.0

    def take_late(self) -> list[str]:
        """Return the uids of the pods that are not ready, and stop waiting for these pods."""
        late, self._unready = list(self._unready), {}
        return late
