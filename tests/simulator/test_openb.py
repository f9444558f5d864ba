"""`simulator/readers/openb.py`: alibaba's cluster-trace-gpu-v2023 ("openb"; Weng et al., ATC'23)."""

from __future__ import annotations

from pathlib import Path

from phalanx.model.pod import DeviceShare, Operator, Requirement
from phalanx.simulator.readers import openb
from phalanx.simulator.workload import GPU
from tests.simulator.builders import DATA


def test_openb_nodes() -> None:
    nodes = openb.read_nodes(DATA / "openb-nodes.csv")
    first = nodes[0]
    assert dict(first.allocatable) == {"cpu": 64000, "memory": 262144 * 2**20, GPU: 2, "pods": 1000}
    assert first.labels == ((openb.MODEL, "P100"),)
    assert [device.name for device in first.devices] == ["gpu-0", "gpu-1"]


def test_openb_pods(tmp_path: Path) -> None:
    tasks = {task.job.id: task for task in openb.read(DATA / "openb-pods.csv").tasks}
    shared = tasks["openb-pod-0001"]
    assert shared.job.roles[0].shape.share == DeviceShare(resource=GPU, milli=460)
    assert shared.run_s == 12902960 - 427061
    models = tmp_path / "pods.csv"
    models.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1000,1,2,1000,V100M16|V100M32|V100M16\n")
    (task,) = openb.read(models).tasks
    assert task.job.roles[0].shape.affinity == ((Requirement(openb.MODEL, Operator.IN, ("V100M16", "V100M32")),),)
    assert dict(task.job.roles[0].shape.requests)[GPU] == 2
    assert task.run_s == float("inf")  # a list without times: they come one after the other, and stay
