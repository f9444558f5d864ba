"""Jobs that say how many GPUs they want and no more: one pod of up to as many GPUs as a node has, else several.

A job of more GPUs than a node has is a gang of full nodes, and one pod of what is left over."""

from __future__ import annotations

from functools import lru_cache

from phalanx.model.job import Role
from phalanx.model.shape import Shape, amounts
from phalanx.simulator.workload import GPU

PER_NODE = 8
MOST_GPUS = 10**6


@lru_cache(maxsize=4096)
def roles_of(gpus: int, per_node: int = PER_NODE) -> tuple[Role, ...]:
    full, left = divmod(gpus, per_node)
    roles = [role("full", full, per_node)] if full else []
    return (*roles, *([role("rest" if full else "", 1, left)] if left else []))


def role(name: str, count: int, gpus: int) -> Role:
    return Role(name=name, count=count, minimum=count, shape=Shape(requests=amounts({GPU: gpus})))
