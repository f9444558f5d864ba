"""Jobs that say how many GPUs they want and no more: one pod of up to as many GPUs as a node has, else several."""

from __future__ import annotations

from phalanx.model.job import Role
from phalanx.simulator.workload.workload import GPU, gang

PER_NODE = 8
MOST_GPUS = 10**6


def roles_of(gpus: int) -> tuple[Role, ...]:
    return gang(GPU, gpus, PER_NODE)
