"""Points 5 and 17 of the protocol: bound is not running. A kubelet may refuse a pod, or never bring it up."""

from __future__ import annotations

from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import HOLD, REASON
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle


def patient(stage: Stage, timeout: str = "60s") -> None:
    stage.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {"gang": True, "startTimeout": timeout}})


def make_ready(stage: Stage, name: str) -> None:
    found = stage.api.objects[PODS][f"default/{name}"]
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    stage.api.put(PODS, {**found, "status": ready})


def words(stage: Stage, name: str) -> dict[str, str]:
    found: dict[str, str] = stage.api.job(name)["metadata"]["annotations"]
    return found


async def stalls(stage: Stage) -> None:
    """Let its pods be bound, none of them become ready, and the start be taken back."""
    await stage.until(lambda: len(stage.api.bound()) == 2)
    await settle(stage)
    stage.now_s += 61
    await stage.until(lambda: not stage.api.pods())
    await settle(stage)


def test_pods_that_never_come_up_send_the_gang_elsewhere() -> None:
    """It goes back whole, says whose fault it was, rests, and avoids the node where it can."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        patient(stage)
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stalls(stage)
            assert "2 of its pods were not ready 61 s after the last was bound" in stage.reason("j")
            stage.api.put(NODES, node("n2", 4))
            await settle(stage)
            stage.now_s += 31
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert set(stage.api.bound().values()) == {"n2"}, "n1 is free, and fuller would be better packed"

    play(scene())


def test_after_three_such_starts_it_is_held_and_says_why() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        patient(stage)
        stage.put(job("j", 2))
        async with stage.scheduler():
            for attempt in range(3):
                await stalls(stage)
                stage.now_s += 30 * 2**attempt + 1
            await settle(stage)
            assert words(stage, "j")[HOLD] == "3 starts in a row failed"
            assert stage.reason("j").startswith("Held: Job j is held (3 starts in a row failed)")
            assert stage.api.pods() == []
            stage.change("j", {}, {HOLD: "false"})
            await stage.until(lambda: len(stage.api.bound()) == 2)

    play(scene())


def test_all_were_ready_once_and_may_be_unready_later() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        patient(stage)
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            for name in ("j-1", "j-2"):
                make_ready(stage, name)
            await settle(stage)
            found = stage.api.objects[PODS]["default/j-1"]
            stage.api.put(PODS, {**found, "status": {"phase": "Running", "conditions": []}})
            stage.now_s += 100
            await settle(stage)
            assert stage.phase("j") == "running"
            assert len(stage.api.bound()) == 2

    play(scene())


def test_a_restart_counts_anew_and_only_pods_that_never_ran() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        patient(stage)
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            make_ready(stage, "j-1")
            await settle(stage)
        stage.now_s += 50
        async with stage.scheduler():
            await settle(stage)
            stage.now_s += 50
            await settle(stage)
            assert len(stage.api.bound()) == 2
            stage.now_s += 11
            await stage.until(lambda: not stage.api.pods())

    play(scene())


def test_a_queue_without_a_time_waits_for_ever() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.now_s += 1e6
            await settle(stage)
            assert stage.phase("j") == "running"

    play(scene())


def test_a_lost_nodes_pods_stay_charged_to_it_and_nothing_new_goes_there() -> None:
    """Phalanx never deletes such pods, because they may still run."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            lost = {**stage.api.objects[NODES]["n1"], "status": {**node("n1", 4)["status"], "conditions": []}}
            stage.api.put(NODES, lost)
            stage.put(job("more", 2))
            writes = len(stage.api.writes)
            await settle(stage)
            assert stage.api.writes[writes:] == []
            assert len(stage.api.bound()) == 2
            stage.api.put(NODES, node("n1", 4))
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.api.drop(NODES, "n1")
            await settle(stage)
            assert len(stage.api.bound()) == 4
            assert stage.phase("j") == "running"

    play(scene())


# --- a kubelet refuses ------------------------------------------------------------------------------------------------


def reject(stage: Stage, name: str) -> None:
    found = stage.api.objects[PODS][f"default/{name}"]
    text = "Node didn't have enough resource: cpu"
    stage.api.put(PODS, {**found, "status": {"phase": "Failed", "reason": "OutOfcpu", "message": text}})


def test_a_job_whose_pod_a_kubelet_refused_says_so_also_when_it_is_over() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(job("j", 1))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 1)
            reject(stage, "j-1")
            failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
            stage.api.put(JOBS, {**stage.api.job("j"), "status": failed})
            await settle(stage)
            said = words(stage, "j")[REASON]
            assert said.startswith("Rejected: the kubelet of n1 refused pod j-1 (OutOfcpu: Node didn't have enough")

    play(scene())


def nominated(name: str, where: str) -> Object:
    theirs = pod(name, "3", scheduler="default-scheduler")
    return {**theirs, "status": {"phase": "Pending", "nominatedNodeName": where}}


def of_a_daemon_set(name: str, where: str) -> Object:
    theirs = pod(name, "3", scheduler="default-scheduler")
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [where]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    theirs["spec"]["affinity"] = {"nodeAffinity": required}
    return theirs


def test_pods_that_others_are_about_to_bind_count_where_they_will_be() -> None:
    """Nominated by a preempting scheduler, or made by a DaemonSet for this node alone: their room is not taken."""

    async def scene(theirs: Object) -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(theirs, job("j", 2))
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.bound() == {}
            assert stage.reason("j").startswith("NoRoom")
            stage.api.drop(PODS, "default/theirs")
            await stage.until(lambda: len(stage.api.bound()) == 2)

    for make in (nominated, of_a_daemon_set):
        play(scene(make("theirs", "n1")))
