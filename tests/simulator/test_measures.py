"""Every measure against a computation by hand, on schedules small enough for that."""

from __future__ import annotations

import pytest

from phalanx.model.job import Job, Placement, Role
from phalanx.model.pod import Shape
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.schedule import Stint
from phalanx.simulator.workload import GPU, Task, Workload, gpu_nodes
from tests.simulator.builders import played, recorded, task, workload


def three_jobs():
    """On 4 processors: a (2) runs 0 to 30; b (4) is submitted at 10, runs 30 to 40; c (1) at 20, runs 40 to 45."""
    jobs = task("a", 0, 30, 2, user="u"), task("b", 10, 10, 4, user="v"), task("c", 20, 5, 1, user="v")
    return recorded(workload(*jobs, size=4), [(0, 30), (30, 40), (40, 45)])


def test_what_is_stranded_is_free_where_something_else_is_short() -> None:
    # Pods ask 2 cpu per GPU. On one node 3 GPUs and 2 cpu are left, enough for one; on the other 4 GPUs and all 64.
    role = Role(name="", count=1, minimum=1, shape=Shape(requests=(("cpu", 2000), (GPU, 1))))
    greedy = Role(name="", count=1, minimum=1, shape=Shape(requests=(("cpu", 60_000),)))
    jobs = [Task(job=Job(id=name, queue="", roles=(each,)), run_s=100) for name, each in (("a", role), ("b", greedy))]
    schedule = recorded(
        Workload(name="t", tasks=jobs, nodes=gpu_nodes(2, 4), counted=GPU, unit=1), [(0, 100), (0, 100)]
    )
    schedule.stints[:] = [Stint(at, 0, 100, (Placement(0, 0, "node-0"),), True) for at in (0, 1)]
    found = measure(schedule)
    assert found["stranded"] == pytest.approx((3 - 1) / 8)
    # To the half of the pods that ask no GPU all 7 are fragments; the others fit on both nodes.
    assert found["fragmentation"] == pytest.approx(0.5 * 7 / 8)
    assert found["fragmentation_of_idle"] == pytest.approx(0.5)


def test_what_a_run_takes_is_measured() -> None:
    block = bytearray(b"x") * (32 << 20)
    assert played(task("a", 0, 1)).peak_rss_bytes > len(block)
