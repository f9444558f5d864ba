"""Point 2 of the protocol, pinned mode: a queued Job whose pods ask for another scheduler starts whole like any other.
Its pods are gated until the barrier, then let go to their planned nodes, and bound by that scheduler: never by us."""

from __future__ import annotations

from phalanx.client.kind import PODS
from tests.kube.double import Controller, Object, OtherScheduler, job, named_node, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

THEIRS = "default-scheduler"


async def until(stage: Stage, other: OtherScheduler, count: int) -> None:
    """Advance the stage and the other scheduler until `count` pods are bound."""
    for _ in range(100):
        if len(stage.api.bound()) == count:
            return
        await stage.turn()
        other.turn()
    raise AssertionError(f"writes: {stage.api.writes}; bound: {stage.api.bound()}")


def gates(spec: Object) -> list[str]:
    return [gate["name"] for gate in spec.get("schedulingGates", ())]


def test_its_scheduler_binds_the_gang_where_it_was_planned() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2), node("n2", 2)])
        other = OtherScheduler(stage.api, favourite="n1")
        stage.put(job("j", 4, scheduler=THEIRS))
        async with stage.scheduler():
            await until(stage, other, 4)
            await settle(stage)
            assert sorted(stage.api.bound().values()) == ["n1", "n1", "n2", "n2"]
            assert stage.phase("j") == "running"
            assert not [write for write in stage.api.writes if write.startswith("bind")]

    play(scene())


def test_nothing_is_let_go_before_the_whole_gang_exists() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.controller = Controller(stage.api, lambda name, k: "no" if k == 3 else "")
        other = OtherScheduler(stage.api)
        stage.put(job("j", 4, scheduler=THEIRS))
        async with stage.scheduler():
            for _ in range(12):
                await stage.turn()
                other.turn()
            assert [gates(pod["spec"]) for pod in stage.api.pods()] == [["phalanx.dev/pinned"]] * 3
            assert stage.api.bound() == {}

    play(scene())


def test_it_is_started_only_when_all_are_bound() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2, scheduler=THEIRS))
        async with stage.scheduler():
            await stage.until(lambda: [named_node(pod["spec"]) for pod in stage.api.pods()] == ["n1", "n1"])
            await settle(stage)
            assert stage.phase("j") == "starting"

    play(scene())


def test_what_stays_unbound_is_taken_back_whole() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2, scheduler=THEIRS))
        async with stage.scheduler():
            await stage.until(lambda: [named_node(pod["spec"]) for pod in stage.api.pods()] == ["n1", "n1"])
            stage.now_s += 62
            await stage.until(lambda: not stage.api.pods())
            await settle(stage)
            assert stage.api.job("j")["spec"]["suspend"] is True
            assert "its start was taken back: default-scheduler bound 0 of 2 pods in 62 s" in stage.reason("j")

    play(scene())


def test_it_starts_again_after_it_was_taken_back() -> None:
    """The gate is in the template already, and is not put there twice."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        other = OtherScheduler(stage.api)
        stage.put(job("j", 2, scheduler=THEIRS))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.pods()) == 2)
            stage.now_s += 62
            await stage.until(lambda: not stage.api.pods())
            await settle(stage)
            stage.now_s += 31
            await until(stage, other, 2)
            assert gates(stage.api.job("j")["spec"]["template"]["spec"]) == ["phalanx.dev/pinned"]

    play(scene())


def test_a_pod_bound_elsewhere_is_counted_where_it_runs() -> None:
    """Another user binds the pod against its affinity: the API's state counts, and no other pod gets that capacity."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2), node("n2", 2)])
        stage.put(job("j", 2, "2", scheduler=THEIRS))
        async with stage.scheduler():
            await stage.until(lambda: {named_node(pod["spec"]) for pod in stage.api.pods()} == {"n1", "n2"})
            for pod in stage.api.pods():
                elsewhere = "n1" if named_node(pod["spec"]) == "n2" else "n2"
                stage.api.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": elsewhere}})
            await stage.until(lambda: stage.phase("j") == "running")
            stage.put(job("more", 1))
            await settle(stage)
            assert stage.reason("more").startswith("NoRoom")

    play(scene())


def test_a_pod_whose_gate_somebody_removed_is_not_bound_by_us() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2, scheduler=THEIRS))
        async with stage.scheduler():
            await stage.until(lambda: bool(stage.api.pods()))
            (pod,) = stage.api.pods()
            stage.api.put(PODS, {**pod, "spec": {**pod["spec"], "schedulingGates": []}})
            await settle(stage)
            assert not [write for write in stage.api.writes if "bind" in write]
            await until(stage, OtherScheduler(stage.api, favourite="n1"), 2)
            await settle(stage)
            assert stage.phase("j") == "running"

    play(scene())


def test_terms_of_its_own_stay_and_become_narrower() -> None:
    """KEP-3838: a gated pod's terms may only be added to, each of them."""

    async def scene() -> None:
        labelled = node("n1", 4)
        labelled["metadata"]["labels"] = {"zone": "a"}
        stage = Stage(nodes=[labelled, node("n2", 4)])
        body = job("j", 1, scheduler=THEIRS)
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        body["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
        stage.put(body)
        async with stage.scheduler():
            await until(stage, OtherScheduler(stage.api), 1)
            (pod,) = stage.api.pods()
            (terms,) = pod["spec"]["affinity"]["nodeAffinity"].values()
            here = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
            assert terms["nodeSelectorTerms"] == [{**term, "matchFields": [here]}]

    play(scene())


def test_a_replacement_takes_its_predecessors_place() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        other = OtherScheduler(stage.api)
        stage.put(job("j", 2, scheduler=THEIRS))
        async with stage.scheduler():
            await until(stage, other, 2)
            await settle(stage)
            stage.finish("j-1", "Failed")
            await until(stage, other, 3)
            assert stage.api.bound()["j-3"] == "n1"

    play(scene())


def test_killed_at_every_write_it_still_starts_whole() -> None:
    async def scene(last: int) -> None:
        stage, left = Stage(nodes=[node("n1", 2), node("n2", 2)]), [last]

        def fault(write: str) -> str | None:
            left[0] -= write.startswith("patch")
            return "kill after" if left[0] == 0 else None

        stage.fault = fault
        other = OtherScheduler(stage.api)
        stage.put(job("j", 4, scheduler=THEIRS))
        for _ in range(2):
            async with stage.scheduler():
                for _ in range(60):
                    await stage.turn()
                    other.turn()
                    if stage.killed:
                        break
        assert sorted(stage.api.bound().values()) == ["n1", "n1", "n2", "n2"]

    for last in range(1, 6):
        play(scene(last))


def test_pods_of_ours_keep_their_template() -> None:
    """Direct mode never touches the template."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert gates(stage.api.job("j")["spec"]["template"]["spec"]) == []

    play(scene())
