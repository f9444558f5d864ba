"""`simulator/measures/fragmentation.py`: fragmentation."""

from __future__ import annotations

import pytest

from phalanx.model.job import Job, Placement, Role
from phalanx.model.pod import Shape
from phalanx.simulator.measures.fragmentation import fragmentation
from phalanx.simulator.measures.measure import measure
from phalanx.simulator.schedule import Stint
from phalanx.simulator.workload import GPU, Task, Workload, gpu_nodes
from tests.simulator.builders import recorded


def test_fragmentation_is_what_is_free_where_the_typical_pod_does_not_fit() -> None:
    # Two nodes of 4 GPUs. A pod of 3 on the first: its fourth GPU is of no use to pods of 3, those of the other are.
    role = Role(name="", count=1, minimum=1, shape=Shape(requests=((GPU, 3),)))
    jobs = [Task(job=Job(id=name, queue="", roles=(role,)), run_s=100) for name in ("a", "b")]
    schedule = recorded(
        Workload(name="t", tasks=jobs, nodes=gpu_nodes(2, 4), counted=GPU, unit=1), [(0, 100), (0, 100)]
    )
    schedule.stints[:] = [Stint(0, 0, 100, (Placement(0, 0, "node-0"),), True)]
    assert fragmentation(schedule)["fragmentation"] == pytest.approx(1 / 8)
    assert measure(schedule)["fragmentation"] == pytest.approx(1 / 8)
