"""Restore the seats (places for pods, with their nodes) of a start that an earlier scheduler process made. They follow
from the record of the start and from the existing pods."""

from __future__ import annotations

from dataclasses import replace

from phalanx.kube.gang.seats.bind_barrier import BindBarrier
from phalanx.kube.gang.seats.elastic import ElasticParallelism
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.job import Slot
from phalanx.model.reason import Reason, ReasonCode


def recall_seats(start: GangStart, barrier: BindBarrier, elastic: ElasticParallelism) -> None:
    """Assign the existing pods to seats (places for pods) again, and add seats for missing pods. If any pod is bound,
    the start has passed its bind barrier."""
    for row in start.seats.rows:
        row.left_out = _was_left_out(start.objects.jobs.get(row.job))
    _seat_pods(start, barrier)
    if start.record.gang:
        _add_missing_seats(start, elastic)
        _recall_leaving(start, elastic)


def _was_left_out(job: BatchJob | None) -> bool:
    """Return whether the gang was started without this Job, by resuming the Job with a parallelism of 0."""
    return job is not None and not job.suspended and not job.parallelism


def _seat_pods(start: GangStart, barrier: BindBarrier) -> None:
    pods = () if start.record.cluster else start.objects.pods.values()
    for pod in sorted(pods, key=lambda pod: (not pod.node, not pod.pin, pod.created_s, pod.name)):
        number = start.seats.role_of_pod(pod, start.objects.jobs)
        if number is None or (pod.going and not pod.node):
            continue
        seat = start.seats.take(number, pod)
        if pod.node or pod.pin:
            seat.node, seat.sent, seat.devices = pod.node or pod.pin, not pod.node, pod.devices
            start.seats.mark(seat, ready=True, bound=bool(pod.node))
            start.effects.allocations.allocate(pod.uid, seat.node, pod.requests)
            barrier.gate_open = True


def _add_missing_seats(start: GangStart, elastic: ElasticParallelism) -> None:
    """Add seats (places for pods) for the pods of the start that do not exist now. Each role gets as many seats as it
    has pods; the role of an elastic Job gets as many as the Job's parallelism. The total number of seats is limited to
    the number of pods that the start placed, or to the number of pods that already have seats, if that is larger. If a
    user has increased the size of a Job since the start, Phalanx later requests nodes for the additional pods."""
    rows, counts = start.seats.rows, list[int]()
    for row in rows:
        job = start.objects.jobs.get(row.job)
        grows = job is not None and row.least < row.role.count
        counts.append(min(row.role.count, job.parallelism) if job is not None and grows else row.role.count)
    asked_since = sum(counts) - max(start.record.seats, start.seats.taken)
    for number, row in enumerate(rows):
        cut = max(0, min(asked_since, counts[number] - row.taken))
        asked_since -= cut
        counts[number] -= cut
        if counts[number] < row.least:
            row.role = replace(row.role, count=counts[number], minimum=counts[number])
        for _ in range(counts[number] - len(row.seats)):
            row.add(row.next_ordinal())
    elastic.grant(counts)
    if any(elastic.parallelism(job) < job.requested_parallelism for job in start.objects.jobs.values()):
        elastic.rest()  # the gang may have given up pods just before the restart, so do not request more at once


def _recall_leaving(start: GangStart, elastic: ElasticParallelism) -> None:
    """Find the terminating pods that the core gave up before the restart, to shrink the gang. These are the pods in
    excess of their role's size. The replacement of a pod that was given up needs a new node. The replacement of any
    other terminating pod gets the node of that pod."""
    for number, row in enumerate(start.seats.rows):
        job = start.objects.jobs.get(row.job)
        kept = row.least if job is None else elastic.granted.get(job.uid, row.taken)
        pods = {ordinal: start.objects.pods.get(seat.pod) for ordinal, seat in row.seats.items() if seat.node}
        terminating = [ordinal for ordinal, pod in pods.items() if pod is not None and pod.going]
        for ordinal in terminating[::-1][: max(0, row.taken - kept)]:
            start.leaving[Slot(number, ordinal)] = Reason(code=ReasonCode.PREEMPTED, text="it gives up pods")
