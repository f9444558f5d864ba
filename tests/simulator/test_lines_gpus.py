"""`simulator/readers/lines.py`: jobs that only state their number of GPUs."""

from __future__ import annotations

from phalanx.simulator.readers.lines import roles_of
from phalanx.simulator.workload import GPU


def test_jobs_of_more_gpus_than_a_node_has_are_gangs() -> None:
    assert [(role.count, role.shape.requests) for role in roles_of(4)] == [(1, ((GPU, 4),))]
    assert [(role.count, role.shape.requests) for role in roles_of(20)] == [(2, ((GPU, 8),)), (1, ((GPU, 4),))]
