"""A Workload's topology assignment, and its reclaimable pods."""

from __future__ import annotations

import pytest

from phalanx.client.kind import JOBS, NODES
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.fields.tables import notes
from tests.dialects.kueue.written import cluster_queue, group, named
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import conditions, job, stage_with, workload
from tests.kube.test_kueue_pods import pod

HOST, RACK = "kubernetes.io/hostname", "rack"


def with_racks(*levels: str) -> Stage:
    """Two racks with two nodes of 2 cpu each, behind a flavor whose Topology has these levels."""
    stage = stage_with(8)
    for name, rack in (("a-1", "a"), ("a-2", "a"), ("b-1", "b"), ("b-2", "b")):
        one = node(f"node-{name}-x", 2)
        one["metadata"]["labels"] = {RACK: rack, HOST: f"node-{name}-x", "pool": "tas"}
        stage.put_node(one)
    spec = {"nodeLabels": {"pool": "tas"}, "topologyName": "t"}
    stage.api.put(kinds.TOPOLOGIES, named("t", spec={"levels": [{"nodeLabel": level} for level in levels]}))
    stage.api.put(kinds.RESOURCE_FLAVORS, named("tas", spec=spec))
    stage.api.put(kinds.CLUSTER_QUEUES, cluster_queue("a", group(tas={"cpu": 8})))
    return stage


def close(name: str, pods: int, **annotations: str) -> Object:
    found = job(name, pods)
    said = {f"kueue.x-k8s.io/podset-{key.replace('_', '-')}": text for key, text in annotations.items()}
    found["spec"]["template"]["metadata"] = {"annotations": said}
    return found


def assignment(stage: Stage, name: str) -> Object:
    found: Object = workload(stage, name)["status"]["admission"]["podSetAssignments"][0].get("topologyAssignment", {})
    return found


def test_it_says_where_its_pods_are_by_the_levels_of_the_topology() -> None:
    async def scene() -> None:
        stage = with_racks("rack", HOST)
        stage.put(close("four", 4, required_topology=RACK))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "four").get("Admitted") == "True Admitted")
            asked = workload(stage, "four")["spec"]["podSets"][0]["topologyRequest"]
            assert asked == {"required": RACK, "podIndexLabel": "batch.kubernetes.io/job-completion-index"}
            await stage.until(lambda: len(stage.api.bound()) == 4)
            (rack,) = {name[5] for name in stage.api.bound().values()}
            roots = {"prefix": f"node-{rack}-", "roots": ["1", "2"], "suffix": "-x"}
            values = [{"individual": roots}]
            slices = [{"domainCount": 2, "valuesPerLevel": values, "podCounts": {"universal": 2}}]
            assert assignment(stage, "four") == {"levels": [HOST], "slices": slices}

    play(scene())


def test_domains_of_several_levels_are_told_by_all_of_them() -> None:
    async def scene() -> None:
        stage = with_racks("pool", "rack")
        stage.put(close("six", 6, unconstrained_topology="true"))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "six").get("Admitted") == "True Admitted")
            assert workload(stage, "six")["spec"]["podSets"][0]["topologyRequest"]["unconstrained"] is True
            found = assignment(stage, "six")
            assert found["levels"] == ["pool", "rack"]
            (one,) = found["slices"]
            assert one["valuesPerLevel"] == [{"universal": "tas"}, {"individual": {"roots": ["a", "b"]}}]
            assert sorted(one["podCounts"]["individual"]) == [2, 4]

    play(scene())


def test_a_flavor_without_a_topology_says_nothing_of_it() -> None:
    async def scene() -> None:
        stage = stage_with()
        stage.put(job("plain", 2))
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "plain").get("Admitted") == "True Admitted")
            assert assignment(stage, "plain") == {}
            assert "topologyRequest" not in workload(stage, "plain")["spec"]["podSets"][0]

    play(scene())


def test_pods_that_a_job_needs_no_more_are_told_as_reclaimable() -> None:
    """pkg/controller/jobs/job of Kueue: parallelism less what is left to complete, once some have succeeded."""

    async def scene() -> None:
        stage = stage_with()
        one = job("work", 3)
        one["spec"]["completions"] = 4
        stage.put(one)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert "reclaimablePods" not in workload(stage, "work")["status"]
            stage.api.put(JOBS, {**stage.api.job("work"), "status": {"succeeded": 1}})
            await settle(stage)
            assert "reclaimablePods" not in workload(stage, "work")["status"], "three are left to complete"
            stage.api.put(JOBS, {**stage.api.job("work"), "status": {"succeeded": 2}})
            await stage.until(
                lambda: workload(stage, "work")["status"].get("reclaimablePods") == [{"name": "main", "count": 1}]
            )

    play(scene())


def with_nodes(**nodes: tuple[int, str, str]) -> Stage:
    """Nodes by name: cpu, block and rack; behind a flavor whose Topology has block above rack."""
    stage = with_racks("block", "rack")
    for name in list(stage.api.objects[NODES]):
        stage.api.drop(NODES, name)
    for name, (cpu, block, rack) in nodes.items():
        one = node(name, cpu)
        one["metadata"]["labels"] = {"block": block, RACK: rack, HOST: name, "pool": "tas"}
        stage.put_node(one)
    return stage


def test_what_fits_no_preferred_level_goes_to_one_of_the_level_above_it_in_the_topology() -> None:
    async def scene() -> None:
        stage = with_nodes(n1=(2, "x", "a"), n2=(2, "y", "b"), n3=(2, "y", "c"))
        stage.put(close("four", 4, preferred_topology=RACK))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert set(stage.api.bound().values()) == {"n2", "n3"}

    play(scene())


def test_pod_sets_of_one_group_share_a_domain() -> None:
    async def scene() -> None:
        stage = with_nodes(n1=(2, "x", "a"), n2=(3, "x", "b"))
        for name, pods in (("leader", 1), ("workers", 2)):
            one = close(name, pods, group_name="pair", required_topology=RACK)
            one["metadata"]["labels"]["phalanx.dev/job"] = "both"
            one["metadata"]["annotations"] = {"phalanx.dev/job-roles": "2"}
            stage.put(one)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert set(stage.api.bound().values()) == {"n2"}

    play(scene())


@pytest.mark.parametrize("said", [{"required-topology": RACK}, {"required-topology": RACK, "group-name": "all"}])
def test_pods_of_a_group_of_pods_share_a_domain(said: dict[str, str]) -> None:
    async def scene() -> None:
        stage = with_nodes(n1=(1, "x", "a"), n2=(2, "x", "b"))
        for name in ("one", "two"):
            one = pod(name, "g")
            one["metadata"]["annotations"] |= {f"kueue.x-k8s.io/podset-{key}": text for key, text in said.items()}
            stage.put(one)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert set(stage.api.bound().values()) == {"n2"}

    play(scene())


def test_slices_are_not_split_inside_of_a_required_domain() -> None:
    """By count alone three pods would go to one rack, and the fourth to the other."""

    async def scene() -> None:
        stage = with_nodes(n1=(3, "x", "a"), n2=(3, "x", "b"))
        stage.put(close("four", 4, required_topology="block", slice_required_topology=RACK, slice_size="2"))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert sorted(stage.api.bound().values()) == ["n1", "n1", "n2", "n2"]

    play(scene())


def test_each_layer_of_slices_is_kept_together() -> None:
    """Block x has room for five pods, but for one slice of four in racks for two each; y for two."""
    said = '[{"topology": "block", "size": 4}, {"topology": "rack", "size": 2}]'

    async def scene() -> None:
        stage = with_nodes(n1=(3, "x", "a"), n2=(2, "x", "b"), n3=(2, "y", "c"), n4=(3, "y", "d"))
        asked = close("eight", 8, slice_required_topology_constraints=said)
        stage.put(asked)
        async with stage.scheduler():
            await stage.until(lambda: conditions(stage, "eight").get("Admitted") == "True Admitted")
            request = workload(stage, "eight")["spec"]["podSets"][0]["topologyRequest"]
            assert request["podsetSliceRequiredTopologyConstraints"] == [
                {"topology": "block", "size": 4},
                {"topology": "rack", "size": 2},
            ]
            await stage.until(lambda: len(stage.api.bound()) == 8)
            (one,) = assignment(stage, "eight")["slices"]
            assert (one["domainCount"], one["podCounts"]) == (4, {"universal": 2})
        assert list(notes("Job", asked)) == []

    play(scene())
