"""Jobs that only state their number of GPUs: one pod with up to the GPUs of a node, otherwise several pods."""

from __future__ import annotations

from phalanx.model.job import Role
from phalanx.simulator.workload.workload import GPU, gang

PER_NODE = 8
MOST_GPUS = 10**6


def roles_of(gpus: int) -> tuple[Role, ...]:
    return gang(GPU, gpus, PER_NODE)
