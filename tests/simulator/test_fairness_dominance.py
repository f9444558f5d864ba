"""`simulator/measures/fairness.py`: dominant shares (Ghodsi et al., NSDI'11)."""

from __future__ import annotations

import pytest

from phalanx.model.job import Job, Role
from phalanx.model.pod import Shape
from phalanx.simulator.measures.fairness import dominance
from phalanx.simulator.workload import GPU, Task, Workload, gpu_nodes
from tests.simulator.builders import recorded


def test_dominant_shares() -> None:
    # Ten nodes of 64 cpu and 4 GPUs. x holds 64 of 640 cpu and 2 of 40 GPUs all the time: a tenth. y holds 10 GPUs for
    # half of it: a quarter, and then nothing, but nor does it wait then.
    shapes = Shape(requests=(("cpu", 64_000), (GPU, 2))), Shape(requests=(("cpu", 1000), (GPU, 10)))
    x, y = ((Role(name="", count=1, minimum=1, shape=shape),) for shape in shapes)
    jobs = [Task(job=Job(id=name, queue="", roles=each), run_s=1, queue=name) for name, each in (("x", x), ("y", y))]
    nodes = gpu_nodes(10, 4)
    found = dominance(recorded(Workload(name="t", tasks=jobs, nodes=nodes, counted=GPU, unit=1), [(0, 100), (0, 50)]))
    # Of ten rounds five have both, of five there is x alone.
    assert found["dominant_share_gap"] == pytest.approx(5 * (0.25 - 0.1) / 10)
    assert found["max_dominant_share_gap"] == pytest.approx(0.15)
