"""Jobs that can never run are found before anything is played."""

from __future__ import annotations

from dataclasses import replace

from phalanx import loop
from phalanx.model.job import Job, Role
from phalanx.model.node import Device, Node, Topology, TopologyRequest
from phalanx.model.pod import DeviceShare, Shape, amounts
from phalanx.model.queue import Limits, Queue
from phalanx.simulator.run.feasible import never_fitting
from phalanx.simulator.run.setup import Setup, built_in
from phalanx.simulator.workload import GPU, Task, Workload

NODES = tuple(
    Node(
        name=f"n{index}",
        allocatable=amounts({"cpu": 8000, "memory": 16 * 2**30, GPU: gpus, "pods": 10}),
        labels=(("rack", "r"),) if gpus else (),
        devices=tuple(Device(name=f"gpu-{at}", resource=GPU) for at in range(gpus)),
    )
    for index, gpus in enumerate((4, 4, 0))
)
GREEDY = built_in("greedy")


def said(setup: Setup = GREEDY, job: Job | None = None, **more: object) -> list[str]:
    count, minimum = more.pop("count", 1), more.pop("minimum", None)
    share = more.pop("share", None)
    shape = Shape(requests=amounts({str(name): int(str(amount)) for name, amount in more.items()}), share=share)
    role = Role(name="", count=count, minimum=count if minimum is None else minimum, shape=shape)
    asked = replace(job, roles=(role,)) if job else Job(id="j", queue="", roles=(role,))
    tasks = [Task(job=replace(asked, id=name), run_s=1) for name in ("j", "k")]  # what the first was told, all are
    found = never_fitting(Workload(name="t", tasks=tasks, nodes=NODES), setup, loop.step)
    assert [task.job.id for task, _ in found] in ([], ["j", "k"])
    return list(dict.fromkeys(why for _, why in found))


def test_what_fits_the_empty_cluster_is_not_told() -> None:
    assert said(cpu=8000, count=3) == []
    assert said(cpu=8000, count=9, minimum=3) == []
    assert said(share=DeviceShare(resource=GPU, milli=500)) == []
    assert said(job=Job(id="", queue="", roles=(), begin_s=1e9, deadline_s=1e9, reservation="later"), cpu=8000) == []


def test_what_does_not_says_how_much_would() -> None:
    assert said(cpu=8001) == ["a pod asks 8.001 cpu, but the largest node has 8"]
    assert said(cpu=8000, count=4) == [
        "4 pods asked, but the matching nodes (3) can hold 3 of them when empty (8 cpu each)"
    ]
    assert said(memory=17 * 2**30) == ["a pod asks 17Gi memory, but the largest node has 16Gi"]
    assert said(**{GPU: 2, "count": 5}) == [
        "5 pods asked, but the matching nodes (3) can hold 4 of them when empty (2 nvidia.com/gpu each)"
    ]
    assert said(tpu=1) == ["a pod asks 1 tpu, but the largest node has 0"]


def test_queues_and_topologies_say_no_as_well() -> None:
    limited = Queue(name="default", per_job=Limits(resources=(("cpu", 4000),), wall_s=60))
    setup = replace(GREEDY, queues=(limited,))
    assert said(setup, cpu=5000) == ["5 cpu asked, but queue 'default' allows 4 cpu a job"]
    assert said(setup, Job(id="", queue="", roles=(), limit_s=61), cpu=1) == [
        "a time limit of 61 s asked, but queue 'default' allows 60 s"
    ]
    racks = replace(GREEDY, policy=replace(GREEDY.policy, topologies=(Topology(levels=("rack",)),)))
    near = Job(id="", queue="", roles=(), closeness=TopologyRequest(level="rack", required=True))
    assert said(racks, near, cpu=8000, count=2) == []
    (why,) = said(racks, near, cpu=8000, count=3)
    assert "rack" in why
    role = Role(name="", count=1, minimum=1, shape=Shape(requests=amounts({"cpu": 1}), selector=(("rack", "z"),)))
    task = Task(job=Job(id="j", queue="", roles=(role,)), run_s=1)
    ((_, why),) = never_fitting(Workload(name="t", tasks=[task], nodes=NODES), GREEDY, loop.step)
    assert why.startswith("no node matches a pod")


def test_pods_that_are_placed_one_by_one_are_tried_one_by_one() -> None:
    setup = replace(GREEDY, queues=(Queue(name="default", gang=False),))
    assert said(setup, cpu=8000, count=100) == []
    assert said(setup, cpu=8001, count=2) != []
