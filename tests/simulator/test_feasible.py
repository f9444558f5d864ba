"""Jobs that can never run are found before anything is played."""

from __future__ import annotations

from phalanx.model.job import Job, Role
from phalanx.model.node import Node
from phalanx.model.shape import DeviceShare, Shape, amounts
from phalanx.simulator.feasible import never_fitting
from phalanx.simulator.workload import GPU, Task, Workload

NODES = tuple(
    Node(name=f"n{index}", allocatable=amounts({"cpu": 8000, "memory": 16 * 2**30, GPU: gpus, "pods": 10}))
    for index, gpus in enumerate((4, 4, 0))
)


def said(**more: object) -> list[str]:
    count, minimum = more.pop("count", 1), more.pop("minimum", None)
    share = more.pop("share", None)
    shape = Shape(requests=amounts({str(name): int(str(amount)) for name, amount in more.items()}), share=share)
    role = Role(name="", count=count, minimum=count if minimum is None else minimum, shape=shape)
    task = Task(job=Job(id="j", queue="", roles=(role,)), run_s=1)
    return [why for _, why in never_fitting(Workload(name="t", tasks=(task,), nodes=NODES))]


def test_what_fits_the_empty_cluster_is_not_told() -> None:
    assert said(cpu=8000, count=3) == []
    assert said(cpu=8000, count=9, minimum=3) == []
    assert said(share=DeviceShare(resource=GPU, milli=500)) == []


def test_what_does_not_says_how_much_would() -> None:
    assert said(cpu=8001) == ["a pod of 8.001 cpu each: the empty cluster holds 0"]
    assert said(cpu=8000, count=4) == ["4 pods of 8 cpu each: the empty cluster holds 3"]
    assert said(memory=17 * 2**30) == ["a pod of 17Gi memory each: the empty cluster holds 0"]
    assert said(**{GPU: 2, "count": 5}) == ["5 pods of 2 nvidia.com/gpu each: the empty cluster holds 4"]
    assert said(tpu=1) == ["a pod of 1 tpu each: the empty cluster holds 0"]
