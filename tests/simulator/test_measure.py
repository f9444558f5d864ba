"""`simulator/measures/measure.py`: the measures of a schedule, by their documented names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.model.job import Outcome, Placement
from phalanx.model.node import Node, SliceLayer, Topology, TopologyRequest
from phalanx.model.queue import Queue
from phalanx.simulator.measures.measure import measure, size_class
from phalanx.simulator.schedule import Schedule, Stint
from tests.simulator.builders import played, recorded, task, workload
from tests.simulator.test_measures import three_jobs


def test_waits_completion_and_slowdown() -> None:
    found = measure(three_jobs())
    # waits 0, 20, 20; from submission to end 30, 30, 25; slowdowns 30/30, 30/10, 25/10 (run time 5 counts as 10)
    assert found["mean_wait_s"] == pytest.approx(40 / 3)
    assert found["median_wait_s"] == 20
    assert found["max_wait_s"] == 20
    assert found["mean_jct_s"] == pytest.approx(85 / 3)
    assert found["mean_bounded_slowdown"] == pytest.approx((1 + 3 + 2.5) / 3)
    assert found["median_bounded_slowdown"] == 2.5
    assert found["p95_bounded_slowdown"] == pytest.approx(2.5 + 0.9 * 0.5)


def test_use_of_the_machine() -> None:
    found = measure(three_jobs())
    assert found["makespan_s"] == 45
    assert found["utilisation"] == pytest.approx((2 * 30 + 4 * 10 + 1 * 5) / (4 * 45))
    # Idle in vain: from 20 to 30 two processors, while c (1) waits. While b alone waits (4), nothing would fit.
    assert found["loss_of_capacity"] == pytest.approx(2 * 10 / (4 * 45))
    assert found["offered_load"] == pytest.approx((60 + 40 + 5) / (4 * 20))
    assert found["goodput"] == 1


def test_deadlines() -> None:
    jobs = [
        task(f"j{index}", 0, 10, deadline_s=deadline_s) for index, deadline_s in enumerate((10.0, 15.0, 25.0, None))
    ]
    found = measure(recorded(workload(*jobs), [(0, 10), (10, 20), (20, 30), (30, 40)]))
    assert found["jobs_with_deadline"] == 3
    assert found["deadline_admission_ratio"] == 1
    assert found["deadline_miss_ratio"] == pytest.approx(2 / 3)
    assert found["mean_tardiness_s"] == 5


def test_a_job_that_is_not_started_since_it_would_be_late_is_not_admitted() -> None:
    # One processor. a runs to 50; b (30 s, due at 70) would end at 80 then; c (30 s, due at 100) ends at 80.
    jobs = [
        task(name, 0, run_s, limit_s=run_s, deadline_s=due_s)
        for name, run_s, due_s in (("a", 50, 60), ("b", 30, 70), ("c", 30, 100))
    ]
    found = measure(played(*jobs, size=1))
    assert (found["jobs_with_deadline"], found["unfinished"]) == (3, 1)
    assert found["deadline_admission_ratio"] == pytest.approx(2 / 3)
    assert found["deadline_miss_ratio"] == pytest.approx(1 / 3)


def test_a_workload_without_deadlines_has_no_ratio() -> None:
    assert "deadline_miss_ratio" not in measure(three_jobs())


def test_finish_time_fairness() -> None:
    found = measure(three_jobs())
    # Two users: alone, each has 2 processors. a: 30/30; b asks 4 of 2, so 20 s alone: 30/20; c: 25/5.
    assert found["mean_finish_time_fairness"] == pytest.approx((1 + 1.5 + 5) / 3)
    assert found["max_finish_time_fairness"] == 5
    assert found["unfairly_late_ratio"] == pytest.approx(2 / 3)


def test_jain_over_what_was_due() -> None:
    # Two queues want the whole machine (1 processor) all the time; one gets three quarters of it.
    jobs = task("a", 0, 75, queue="x"), task("b", 0, 25, queue="y"), task("c", 0, 1, queue="y")
    schedule = recorded(workload(*jobs, size=1), [(0, 75), (75, 100), (99, 100)])
    schedule.fates, schedule.stints = schedule.fates[:-1], schedule.stints[:-1]
    found = measure(schedule)
    # Ten rounds of 10 s. Due is 5 s each while both want 10; from 75 s on x wants nothing.
    # 7 rounds: x used 10 of 5, y 0 of 5: Jain 1/2, gap 2. The round from 70: x used 5 of 5, y 5 of 5. Then y 10 of 10.
    assert found["jain_fairness"] == pytest.approx((7 * 0.5 + 3 * 1) / 10)
    assert found["worst_jain_fairness"] == 0.5
    assert found["share_gap"] == pytest.approx(7 * 2 / 10)


def test_each_month_is_a_sample() -> None:
    day_s = 86_400.0
    jobs = [task(name, day * day_s, 100) for name, day in (("a", 5), ("b", 34), ("c", 36), ("d", 96))]
    found = measure(recorded(workload(*jobs), [(day * day_s, day * day_s + 100) for day in (5, 35, 36, 97)]))
    # The months begin on days 5, 35, 65 and 95; the third has no job.
    assert {month: (each["jobs"], each["mean_wait_s"]) for month, each in found["by_month"].items()} == {
        "1": (2, day_s / 2),
        "2": (1, 0),
        "4": (1, day_s),
    }
    assert "by_month" not in measure(three_jobs())


def test_a_queue_of_weight_three_that_has_three_quarters_has_what_it_is_due() -> None:
    jobs = [task(name, 0, 100, int(size), queue=queue) for name, size, queue in ("a3x", "b1y", "c3x", "d1y")]
    schedule = recorded(workload(*jobs, size=4), [(0, 100), (0, 100), (100, 200), (100, 200)])
    schedule.queues = Queue(name="x", weight=3), Queue(name="y")
    found = measure(schedule)
    assert (found["jain_fairness"], found["share_gap"]) == (1, 0)
    assert found["max_finish_time_fairness"] == 2  # alone, x had three processors and y one
    schedule.queues = ()
    assert measure(schedule)["share_gap"] > 0


def test_pods_that_are_not_up_hold_their_room_for_nothing() -> None:
    schedule = recorded(workload(task("a", 0, 30, 2), size=4), [(10, 40)])
    schedule.stints = [Stint(0, 5, 10, schedule.stints[0].placements, False), *schedule.stints]
    found = measure(schedule)
    assert found["utilisation"] == pytest.approx(2 * 35 / (4 * 40))
    assert found["goodput"] == pytest.approx(30 / 35)
    assert found["mean_wait_s"] == 10
    assert found["loss_of_capacity"] == pytest.approx(4 * 5 / (4 * 40))


def test_jobs_that_never_ran_count_as_such() -> None:
    schedule = three_jobs()
    fate = schedule.fates[2]
    fate.start_s = fate.end_s = fate.outcome = None
    schedule.stints.pop()
    found = measure(schedule)
    assert (found["jobs"], found["finished"], found["unfinished"]) == (3, 2, 1)
    assert found["mean_wait_s"] == 10
    group = found["by_size"]["1"]
    assert (group.pop("jobs"), group.pop("finished")) == (1, 0)
    assert len(group) == 3 * 4
    assert set(group.values()) == {None}


def test_jobs_stopped_at_their_limit() -> None:
    schedule = three_jobs()
    schedule.fates[0].outcome = Outcome.FAILED
    assert measure(schedule)["stopped_at_limit"] == 1


def test_per_queue_and_size_class() -> None:
    found = measure(three_jobs())
    assert found["by_queue"][""]["jobs"] == 3
    assert [(size, group["mean_wait_s"]) for size, group in found["by_size"].items()] == [
        ("1", 20),
        ("2", 0),
        ("3-4", 20),
    ]


def rack(name: str, *hosts: str) -> list[Node]:
    return [Node(name=host, allocatable=(("cpu", 8000), ("pods", 9)), labels=(("rack", name),)) for host in hosts]


def lying(nodes: list[Node], *gangs: str, closeness: TopologyRequest | None = None) -> Schedule:
    """Each gang's pods on the nodes of these names."""
    jobs = [task(f"g{at}", 0, 10, len(gang), closeness=closeness) for at, gang in enumerate(gangs)]
    schedule = recorded(workload(*jobs, nodes=nodes), [(0, 10)] * len(jobs))
    schedule.stints[:] = [
        Stint(at, 0, 10, [Placement(0, pod, node) for pod, node in enumerate(gang)], True)
        for at, gang in enumerate(gangs)
    ]
    return schedule


def test_how_close_the_pods_of_gangs_lie() -> None:
    # a and b are in one rack, c in another, d in none. A single pod is no gang.
    nodes = [*rack("r1", "a", "b"), *rack("r2", "c"), Node(name="d", allocatable=())]
    schedule = lying(nodes, "aa", "ab", "abc", "ad", "c")
    schedule.topologies = (Topology(levels=("rack",)),)
    found = measure(schedule)
    assert (found["gangs"], found["one_node_ratio"], found["mean_nodes_per_gang"]) == (4, 1 / 4, (1 + 2 + 3 + 2) / 4)
    assert found["by_level"] == {"rack": {"one_domain_ratio": 2 / 4, "mean_domains_per_gang": (1 + 1 + 2 + 2) / 4}}


def test_racks_of_one_name_in_two_zones_are_two() -> None:
    nodes = [
        Node(name=name, allocatable=(("cpu", 8000),), labels=(("rack", "r"), ("zone", zone)))
        for name, zone in ("ax", "by")
    ]
    schedule = lying(nodes, "ab")
    schedule.topologies = (Topology(levels=("zone", "rack")),)
    found = measure(schedule)["by_level"]
    assert {level: each["mean_domains_per_gang"] for level, each in found.items()} == {"zone": 2, "rack": 2}


def test_a_level_that_jobs_alone_name_is_measured_too() -> None:
    nodes = [*rack("r1", "a", "b"), *rack("r2", "c")]
    assert "by_level" not in measure(lying(nodes, "ab"))
    schedule = lying(nodes, "ab", "bc", closeness=TopologyRequest(level="rack", slices=(SliceLayer(2, "host"),)))
    assert measure(schedule)["by_level"] == {"rack": {"one_domain_ratio": 0.5, "mean_domains_per_gang": 1.5}}


def test_where_a_gang_goes_later_does_not_count_nor_do_pods_that_never_worked() -> None:
    schedule = lying([*rack("r", "a", "b", "c")], "ab")
    (first,) = schedule.stints
    moved = [Placement(0, pod, "c") for pod in (0, 1)]
    schedule.stints[:] = [first._replace(placements=moved, works=False), first, first._replace(placements=moved)]
    assert measure(schedule)["mean_nodes_per_gang"] == 2


def test_without_gangs_or_with_one_node_there_is_no_such_measure() -> None:
    assert "gangs" not in measure(lying(rack("r", "a", "b"), "a", "b"))
    assert "gangs" not in measure(lying(rack("r", "a"), "aa"))


def test_what_jobs_were_worth() -> None:
    # a is over 30 s after its submission: worth 8 of 10. b has a deadline alone and misses it: 0 of 1. c fails in time.
    jobs = (
        replace(task("a", 10, 30), worth=((20.0, 10.0), (40.0, 8.0))),
        task("b", 0, 30, deadline_s=25.0),
        task("c", 0, 30, deadline_s=90.0),
        task("d", 0, 30),
    )
    schedule = recorded(workload(*jobs), [(10, 40), (0, 30), (0, 30), (0, 30)])
    assert measure(schedule)["value_attained_ratio"] == pytest.approx(9 / 12)
    schedule.fates[2].outcome = Outcome.FAILED
    assert measure(schedule)["value_attained_ratio"] == pytest.approx(8 / 12)
    assert measure(schedule)["max_tardiness_s"] == 5


def test_slowdown_per_processor() -> None:
    found = measure(three_jobs())
    # a: 30 / (2 * 30) counts as 1; b: 30 / (4 * 10) as 1; c: 25 / (1 * 10).
    assert found["mean_per_processor_slowdown"] == pytest.approx((1 + 1 + 2.5) / 3)
    assert found["max_per_processor_slowdown"] == 2.5


def test_no_schedule_is_shorter_than_the_bound() -> None:
    found = measure(three_jobs())
    # In all 105 processor-seconds on 4: 26.25; from 10 on 45 / 4 more; by itself a takes 30 s: that is the longest.
    assert found["makespan_bound_s"] == 30
    assert found["makespan_to_bound"] == 45 / 30
    late = recorded(
        workload(task("a", 0, 1), task("b", 50, 20, 4), task("c", 50, 20, 4), size=4), [(0, 1), (50, 70), (70, 90)]
    )
    assert measure(late)["makespan_bound_s"] == 50 + (80 + 80) / 4


def test_waits_that_are_those_of_the_trace() -> None:
    waited = [replace(task(name, 0, 10), waited_s=said_s) for name, said_s in (("a", 0.0), ("b", 9.0), ("c", None))]
    assert measure(recorded(workload(*waited), [(0, 10), (10, 20), (20, 30)]))["as_in_trace_ratio"] == 0.5
    assert "as_in_trace_ratio" not in measure(three_jobs())


def test_hops_between_the_pods_of_a_gang() -> None:
    # In one rack two nodes are 2 hops apart; in two racks 4; in two zones 6. Of three pairs of b one is on one node.
    nodes = [
        Node(name=name, allocatable=(("cpu", 8000),), labels=(("rack", rack), ("zone", zone)))
        for name, rack, zone in (("a", "1", "x"), ("b", "1", "x"), ("c", "2", "x"), ("d", "3", "y"))
    ]
    schedule = lying(nodes, "ab", "ac", "ad", "aab")
    assert measure(schedule)["mean_hops"] == pytest.approx((2 + 2 + 2 + 4 / 3) / 4)
    schedule.topologies = (Topology(levels=("zone", "rack", "kubernetes.io/hostname")),)
    assert measure(schedule)["mean_hops"] == pytest.approx((2 + 4 + 6 + 4 / 3) / 4)


@pytest.mark.parametrize(
    ("size", "named"),
    [
        (0, "0"),
        (0.5, "<1"),
        (1, "1"),
        (2, "2"),
        (3, "3-4"),
        (4, "3-4"),
        (5, "5-8"),
        (8, "5-8"),
        (9, "9-16"),
        (100, "65-128"),
    ],
)
def test_size_classes_are_powers_of_two(size: float, named: str) -> None:
    assert size_class(size) == named


def test_cascades_of_preemptions() -> None:
    schedule = three_jobs()
    schedule.cascades = [1, 2, 3]
    schedule.fates[0].preemptions, schedule.fates[1].preemptions = 2, 1
    found = measure(schedule)
    assert (found["preemptions"], found["max_preemptions"]) == (3, 2)
    assert (found["mean_cascade"], found["max_cascade"]) == (2, 3)


def test_each_decision_takes_time() -> None:
    schedule = played(task("a", 0, 10), task("b", 5, 10))
    assert len(schedule.decisions_s) == schedule.passes
    assert min(schedule.decisions_s) > 0
    schedule.decisions_s = [0.001] * 99 + [0.101]
    found = measure(schedule)
    assert found["mean_decision_s"] == pytest.approx(0.002)
    assert (found["median_decision_s"], found["max_decision_s"]) == (0.001, 0.101)
    assert found["p99_decision_s"] == pytest.approx(0.001 + 0.01 * 0.1)


def test_speed_is_of_the_machine_and_by_the_time_that_the_run_took() -> None:
    schedule = three_jobs()
    schedule.wall_s, schedule.passes, schedule.peak_rss_bytes = 0.5, 7, 1 << 20
    found = measure(schedule)
    assert (found["jobs_per_s"], found["passes_per_s"], found["times_real_time"]) == (6, 14, 90)
    assert found["peak_rss_bytes"] == 1 << 20
    schedule.wall_s, schedule.peak_rss_bytes = 9.0, 1
    assert measure(schedule)["schedule_sha256"] == found["schedule_sha256"]


def test_a_workload_of_nothing_has_measures_too() -> None:
    found = measure(recorded(workload(), []))
    assert (found["jobs"], found["mean_wait_s"], found["utilisation"], found["makespan_s"]) == (0, 0, 0, 0)
