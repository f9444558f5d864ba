"""Assign the pods of a started gang to seats (a seat is the place for one pod), and handle pods that the start did not
plan. `gang.lifecycle` begins and ends a start, and `bind_barrier` binds the pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from phalanx.dialects.frame.dialect import PodUpdate
from phalanx.kube.gang.seats.bind_barrier import BindBarrier
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seat_table import RoleSeats, Seat, bare_pods_like
from phalanx.kube.gang.spec.declared_roles import pods_in_pieces
from phalanx.kube.gang.spec.gang_spec import charged
from phalanx.kube.gang.spec.members import JobPods
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.template.pod_shape import covers
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.event import Released
from phalanx.model.job import GangSize, Phase, Placement, Role, Slot
from phalanx.model.pod import Amounts, Shape, amounts

_REPLACED = frozenset({labels.MIN_RESOURCES, labels.REPLACES_FAILED})


class Seating:
    def __init__(self, start: GangStart, barrier: BindBarrier) -> None:
        self._start, self._barrier, self._seats = start, barrier, start.seats
        start.objects.changed_pods = dict.fromkeys(start.objects.pods)

    # --- pods change ----------------------------------------------------------------------------------------------

    def vacate(self, pod: Pod) -> None:
        """Record that the pod has ended or was deleted."""
        self._barrier.forget(pod.uid)
        seat = self._seats.leave(pod.uid, self._start.effects.now_s())
        if seat is None:
            return
        if pod.rejected:
            seat.node = ""  # the capacity on this node is released, because a replacement needs another node
        if self._start.objects.job_of(pod) is None and self._is_over(pod, seat.slot):
            self._barrier.release([seat.slot])
        elif seat.slot not in self._start.leaving and (heir := self._seats.hand_over(seat)):
            self._start.objects.changed_pods[heir] = None

    def _is_over(self, pod: Pod, slot: Slot) -> bool:
        """Return True if the place of this ended bare pod (its seat) must be removed. This is so if no new pod replaces
        the pod, or if the pod was evicted for other jobs. In the second case, a replacement gets a node only after
        these jobs have started."""
        return slot in self._start.leaving or pod.phase == "Succeeded" or not self._has_driver()

    def _has_driver(self) -> bool:
        """Return True if lost bare pods of the gang are replaced. A driver may replace a failed executor. The creator
        of other bare pods replaces lost pods if the dialect declares that it does."""
        pods = self._start.objects.pods
        led = self._start.spec.led or any(not _REPLACED.isdisjoint(pod.options) for pod in pods.values())
        return bool(pods) and led

    def excess(self, pod: Pod) -> Amounts | None:
        """Return the amounts by which a pod that was resized in place requests more than was planned for it; None if no
        capacity was planned for the pod (it has no seat)."""
        seat = self._seats.of_pod.get(pod.uid)
        if seat is None or seat.node != pod.node:
            return None
        charged = dict(self._seats.rows[seat.slot.role].role.shape.requests)
        return amounts({name: max(0, value - charged.get(name, 0)) for name, value in pod.requests})

    # --- pods get seats -------------------------------------------------------------------------------------------

    def seat_pods(self) -> list[Pod]:
        """Assign seats (places for pods) to the pods that were created since the last call, and update the seats of
        changed pods. Return the new and the changed pods. If the gang runs in another cluster, its pods get no seats,
        and the result is empty."""
        objects = self._start.objects
        changed, objects.changed_pods = objects.changed_pods, {}
        pods = [] if self._start.record.cluster else [objects.pods[uid] for uid in changed]
        for pod in pods:
            self._look_at(pod)
        return pods

    def _look_at(self, pod: Pod) -> None:
        seat = self._seats.of_pod.get(pod.uid)
        if seat is None:
            if self._awaits_its_step(pod):
                self._start.objects.changed_pods[pod.uid] = None
                return
            seat = self._take(pod)
            if seat is None:
                return
        self._relabel(seat.slot.role, pod)
        if pod.node:
            if seat.node != pod.node:  # bound by another scheduler, or by a write whose answer was lost
                seat.node = pod.node
                self._start.emit_full_state()
            self._barrier.settle(seat)
            return
        ready = bool(seat.node) and (pod.bindable or seat.sent)
        self._seats.mark(seat, ready=ready or seat.bound, bound=seat.bound)
        if ready and not seat.bound:
            self._barrier.pending[seat.slot] = seat
        elif not seat.bound:
            self._barrier.pending.pop(seat.slot, None)
            if not seat.node and not seat.asked and seat.slot not in self._barrier.resting:
                self._start.since_s = self._start.effects.now_s()
                self._barrier.open([seat])

    def place(self, placements: Iterable[Placement]) -> None:
        """Store the nodes of these placements in their seats (places for pods). If a seat no longer exists, report to
        the core that its node is not needed."""
        for placement in placements:
            slot = Slot(placement.role, placement.ordinal)
            if slot not in self._seats or self._seats[slot].bound:
                self._start.effects.emit_event(Released(self._start.id, (slot,)))
                continue
            self._seats.plan((placement,))
            if (uid := self._seats[slot].pod) and uid in self._start.objects.pods:
                self._start.objects.changed_pods[uid] = None

    def fit(self, wanted: Callable[[BatchJob], int]) -> None:
        """Remove the seats (places for pods) that a Job can no longer use, and report to the core that their nodes are
        free. `wanted`: a function that returns the number of seats for a Job. A running gang no longer needs the pods
        that a Job will not create any more. But a starting gang needs all pods that the core has planned for its
        start."""
        frozen = self._start.record.gang and self._start.phase is not Phase.RUNNING
        for row in self._seats.rows:
            if row.job:
                job = self._start.objects.jobs.get(row.job)
                seats = wanted(job) if job is not None and job.ours else 0
                if seats < row.role.minimum and not frozen:
                    row.role = replace(row.role, minimum=seats)
                if len(row.seats) > seats:
                    self._barrier.release(self._seats.surplus(row.number, seats))

    def update(self, updates: Mapping[str, PodUpdate]) -> None:
        """Store the changes that the dialect makes to the Jobs' pod templates at this start, and apply them to the
        planned roles. If a change restricts the nodes of a Job's pods, these pods are planned again."""
        self._start.updates = updates
        if not updates:
            return
        for row in self._seats.rows:
            if (job := self._start.objects.jobs.get(row.job)) is None:
                continue
            update, shape = self._start.update_of(job), row.role.shape
            tolerations = (*shape.tolerations, *(one for one in update.tolerations if one not in shape.tolerations))
            selector = tuple(sorted({*shape.selector, *update.node_selector.items()}))
            row.role = replace(row.role, shape=replace(shape, tolerations=tolerations))
            if selector != shape.selector:
                self._plan_anew(row, replace(row.role.shape, selector=selector))

    # --- private ---------------------------------------------------------------------------------------------------

    def _take(self, pod: Pod) -> Seat | None:
        """Assign a seat (a place for one pod) to this pod, and return the seat; None if the pod is terminating and was
        never on a node."""
        if pod.going and not pod.node:
            return None
        number, held = self._seats.role_of_pod(pod, self._start.objects.jobs), self._seats.held
        flavored = any(self._start.record.flavors)  # the node selectors of the flavors were added to the pods
        if number is None:
            number = self._role_for(pod)
        elif held is not None and self._seats.rows[held].seats and not self._seats.rows[number].vacant:
            self._extend(self._seats.rows[number], self._cut(held, pod))
        elif not covers(self._seats.rows[number].role.shape, pod.shape, narrower=flavored):
            self._replan(self._seats.rows[number], pod)
        return self._seats.take(number, pod)

    def _awaits_its_step(self, pod: Pod) -> bool:
        """Return True if a new pod must wait before it gets a node (a seat). This is the case if the size of its
        running Job may only change in steps, and the number of the Job's pods still differs from the requested size. If
        there are too few pods, further pods of the same step have yet to be created. If there are too many, the Job's
        new size is not in the cache yet."""
        if self._start.phase is not Phase.RUNNING or self._start.spec.job.size is not GangSize.IN_STEPS or pod.node:
            return False
        objects = self._start.objects
        job, number = objects.job_of(pod), self._seats.role_of_pod(pod, objects.jobs)
        if job is None or number is None or self._seats.rows[number].vacant:
            return False
        return objects.size(job) != sum(not one.going for one in objects.pods.values() if objects.job_of(one) is job)

    def _relabel(self, number: int, pod: Pod) -> None:
        """If the pod's shape has more labels than the role's shape, replace the labels in the role's shape. A shape
        contains only those labels that the selectors of other pods use, such as selectors for pod affinity. Since the
        role was planned, new selectors may use more labels."""
        row = self._seats.rows[number]
        if len(pod.shape.labels) > len(row.role.shape.labels):
            shape = replace(row.role.shape, labels=pod.shape.labels, namespace=pod.shape.namespace)
            row.role = replace(row.role, shape=shape)
            self._start.emit_full_state()

    def _role_for(self, pod: Pod) -> int:
        """Add a role for a pod that belongs to no planned role, and return its number. If capacity is reserved for
        later pods, divide that capacity into seats (places) for pods of this shape."""
        number, held, owner = len(self._seats.rows), self._seats.held, self._start.objects.job_of(pod)
        # The gang does not wait for three kinds of pods: pods that are created after its start, pods of a driver, and
        # pods in excess of a declared number.
        later = self._start.phase is Phase.RUNNING or held is not None
        minimum = 0 if later or (self._start.spec.counted and owner is None) else 1
        name = pod.options.get(labels.ROLE) or f"pods-{number}"
        shape = charged(pod.shape, self._start.spec.charging)
        source = bare_pods_like(pod) if owner is None else JobPods(owner.uid)
        row = self._seats.add_role(Role(name=name, count=1, minimum=minimum, shape=shape), source)
        self._extend(row, self._cut(held, pod) if held is not None and owner is None else [])
        return number

    def _extend(self, row: RoleSeats, nodes: list[str]) -> None:
        """Add a seat (a place for one pod of the role) on each of these nodes."""
        for node in nodes:
            row.add(row.next_ordinal(), node)
        row.role = replace(row.role, count=max(row.role.count, len(row.seats)))
        self._start.emit_full_state()

    def _cut(self, held: int, pod: Pod) -> list[str]:
        """Divide the capacity that role `held` reserves among pods of this shape. Return a list of nodes, in which a
        node occurs once for each pod that fits into the reserved capacity on the node."""
        row = self._seats.rows[held]
        by_node: dict[str, int] = {}
        for seat in row.seats.values():
            if seat.node:
                by_node[seat.node] = by_node.get(seat.node, 0) + 1
        here = (row.role.shape.selector, row.role.shape.affinity) == (pod.shape.selector, pod.shape.affinity)
        nodes = [
            node
            for node, count in by_node.items()
            for _ in range(pods_in_pieces([row.role.shape.requests] * count, pod.shape) if here else 0)
        ]
        row.seats.clear()
        row.vacant.clear()
        row.role = replace(row.role, count=0, minimum=0)
        return nodes

    def _replan(self, row: RoleSeats, pod: Pod) -> None:
        """Plan the unbound pods of the role again, because a created pod differs from the planned pods: it requests
        more, or it restricts its nodes further."""
        asked = dict(row.role.shape.requests)
        for name, value in pod.shape.requests:
            asked[name] = max(value, asked.get(name, 0))
        planned = row.role.shape.charged  # charged as the template requests, even if admission changed the pods
        self._plan_anew(row, replace(pod.shape, requests=tuple(sorted(asked.items())), charged=planned))

    def _plan_anew(self, row: RoleSeats, shape: Shape) -> None:
        """Request nodes for the unbound pods of a role again, because they have this shape."""
        row.role = replace(row.role, shape=shape)
        for seat in row.seats.values():
            if not seat.bound:
                seat.node = ""
                self._seats.mark(seat, ready=False, bound=False)
                self._barrier.pending.pop(seat.slot, None)
        self._start.emit_full_state()
