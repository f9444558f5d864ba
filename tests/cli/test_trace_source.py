"""`cli/study/simulation/trace_source.py`: the workload of a simulation from its options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.study.simulation.trace_source import TraceSource, cluster_of, workload_of
from phalanx.errors import PhalanxError
from phalanx.model.node import NodeGroup
from phalanx.simulator.readers.lines import OnError
from phalanx.simulator.workload import SimulatedGroup, Workload
from tests.core.builders import node
from tests.simulator.builders import KTH


def ids(found: Workload) -> list[str]:
    return [task.job.id for task in found.tasks]


def test_the_workload_of_a_file(own: TraceSource) -> None:
    found = workload_of(own, 0)
    assert ids(found) == ["a", "b", "c"]
    assert len(found.nodes) == 2


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"first": 2}, ["a", "b"]),
        ({"skip": 1}, ["b", "c"]),
        ({"first": 2, "skip": 1}, ["b"]),  # --first counts from the beginning of the trace
        ({"first": 0}, []),
        ({"first": 9, "skip": 9}, []),
    ],
)
def test_a_part_of_the_jobs(options: dict[str, Any], left: list[str], own: TraceSource) -> None:
    assert ids(workload_of(replace(own, **options), 0)) == left


def test_a_load_changes_when_jobs_are_submitted_and_a_shake_depends_on_the_seed(own: TraceSource) -> None:
    def times(seed: int = 0, **options: Any) -> list[float]:
        return [task.job.submitted_s for task in workload_of(replace(own, **options), seed).tasks]

    assert times() == [0.0, 10.0, 20.0]
    assert times(load=2.0) == [0.0, 5.0, 10.0]
    assert times(1, shake_s=5.0) == times(1, shake_s=5.0) != times(2, shake_s=5.0)


def test_jobs_may_run_beyond_their_limits(own: TraceSource) -> None:
    assert not any(task.overruns for task in workload_of(own, 0).tasks)
    assert all(task.overruns for task in workload_of(replace(own, overruns=True), 0).tasks)


def test_a_cluster_replaces_that_of_the_file(own: TraceSource) -> None:
    found = workload_of(replace(own, cluster="3x8"), 0)
    assert [dict(each.allocatable)["nvidia.com/gpu"] for each in found.nodes] == [8, 8, 8]
    assert len(workload_of(replace(own, processors=5), 0).nodes) == 1


@pytest.mark.parametrize("named", ["0x1", "1x0", "1x1025", "1000001x1"])
def test_a_cluster_in_words_has_bounds(named: str) -> None:
    with pytest.raises(PhalanxError, match=rf"--cluster {named}: write 1x1 to 1000000x1024"):
        cluster_of(named, OnError.STOP)


@pytest.mark.parametrize("text", ["nodes: []\n", ""])
def test_a_file_of_a_cluster_has_nodes(text: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(text)
    with pytest.raises(PhalanxError):
        cluster_of(str(tmp_path / "nodes.yaml"), OnError.STOP)
    (tmp_path / "nodes.yaml").write_text("nodes:\n- {name: n, count: 3, allocatable: {cpu: 1}}\n")
    assert len(cluster_of(str(tmp_path / "nodes.yaml"), OnError.STOP).nodes) == 3


def test_a_trace_without_a_cluster_needs_one(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("jobs:\n- {id: a, submit: 0, run: 1m, requests: {cpu: 1}}\n")
    with pytest.raises(PhalanxError, match=r"does not describe a cluster\.\nDescribe it with --cluster"):
        workload_of(TraceSource(trace=tmp_path / "own.yaml"), 0)


def group(name: str) -> SimulatedGroup:
    return SimulatedGroup(group=NodeGroup(name=name, template=node("t", cpu=8000), max_nodes=3))


def test_node_groups_come_beside_the_cluster_of_a_file(own: TraceSource) -> None:
    found = workload_of(replace(own, groups=(group("g"),)), 0)
    assert (len(found.nodes), [each.group.name for each in found.groups]) == (2, ["g"])


def test_node_groups_of_a_log_are_its_only_nodes() -> None:
    found = workload_of(TraceSource(trace=KTH, groups=(group("g"),), first=5), 0)
    assert (found.nodes, len(found.tasks)) == ((), 5)


def test_a_group_whose_nodes_would_have_names_of_the_cluster_is_refused(own: TraceSource, tmp_path: Path) -> None:
    taken = next(iter(group("g").nodes(1))).name
    own.trace.write_text(own.trace.read_text().replace("name: n, count: 2", f"name: {taken}"))
    with pytest.raises(PhalanxError, match=f"already has a node {taken}, a name that a node group would use"):
        workload_of(replace(own, groups=(group("g"),)), 0)


def test_a_growing_workload_needs_a_cluster_of_fixed_size(own: TraceSource) -> None:
    with pytest.raises(PhalanxError, match="--inflate needs a cluster of fixed size"):
        workload_of(replace(own, groups=(group("g"),), inflate=1.0), 0)


def test_reservations_name_nodes_and_jobs_name_reservations(own: TraceSource) -> None:
    plain = own.trace.read_text()
    reserved = plain + "reservations:\n- {name: r, nodes: [NODE], start: 0, end: 100, users: [ada]}\n"
    own.trace.write_text(reserved.replace("NODE", "n"))
    assert [each.name for each in workload_of(own, 0).reservations] == ["r"]
    with pytest.raises(PhalanxError, match=r"reservation r names the node .*which the cluster does not have"):
        workload_of(replace(own, cluster="3x8"), 0)
    own.trace.write_text(plain.replace("id: a,", "id: a, reservation: other,"))
    with pytest.raises(PhalanxError, match="job a names the reservation other, but there is no reservation"):
        workload_of(own, 0)
