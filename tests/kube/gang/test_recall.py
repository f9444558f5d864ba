"""`kube/gang/seats/recall.py`: the seats that a start has again after a restart of the scheduler."""

from __future__ import annotations

from phalanx.kube.gang.seats.bind_barrier import BindBarrier
from phalanx.kube.gang.seats.elastic import ElasticParallelism
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.recall import recall_seats
from phalanx.kube.read.pod import Pod
from phalanx.model.job import Slot
from tests.kube.gang.recorded_effects import RecordedEffects, a_job, a_pod, nodes, started


def recalled(*pods: Pod, minimum: int, size: int = 3) -> tuple[GangStart, BindBarrier, ElasticParallelism]:
    """Return a start of three pods after a restart that finds these pods, and a Job of parallelism `size`."""
    effects = RecordedEffects()
    nodes(effects, "n1")
    start = started(effects, pods=3, nodes=[], minimum=minimum)
    for row in start.seats.rows:
        row.seats.clear()
        row.vacant.clear()
    start.objects.see_job(a_job("j", size, suspend=False))
    start.objects.pods.update({pod.uid: pod for pod in pods})
    barrier = BindBarrier(start, gate_open=False)
    elastic = ElasticParallelism(start, barrier)
    recall_seats(start, barrier, elastic)
    return start, barrier, elastic


def test_a_bound_pod_has_its_seat_and_the_barrier_is_open() -> None:
    start, barrier, _ = recalled(a_pod("a", job="j", node="n1"), minimum=3)
    assert [(seat.pod, seat.node) for seat in start.seats.rows[0].seats.values()] == [("a", "n1"), ("", ""), ("", "")]
    assert barrier.gate_open
    assert start.seats.minimum_bound == 1


def test_without_a_bound_pod_the_barrier_is_closed() -> None:
    start, barrier, _ = recalled(a_pod("a", job="j"), minimum=3)
    assert not barrier.gate_open
    assert len(start.seats.rows[0].seats) == 3


def test_an_elastic_job_has_the_seats_that_it_was_given() -> None:
    start, _, elastic = recalled(a_pod("a", job="j", node="n1"), minimum=1, size=2)
    assert len(start.seats.rows[0].seats) == 2
    assert elastic.granted == {"j": 2}


def test_pods_that_end_and_are_too_many_were_given_up() -> None:
    pods = [a_pod(name, job="j", node="n1") for name in ("a", "b")]
    ending = a_pod("c", job="j", node="n1", meta={"deletionTimestamp": "2024-01-01T00:00:00Z"})
    start, _, _ = recalled(*pods, ending, minimum=1, size=2)
    assert list(start.leaving) == [Slot(0, 2)]
