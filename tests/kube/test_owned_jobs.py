"""Point 12 of the protocol: a Job whose owner decides whether it is suspended (JobSet) is not fought over."""

from __future__ import annotations

from phalanx.model.job import Phase
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.double import Object, job, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play
from tests.kube.test_restart import important

WHY = Reason(code=ReasonCode.PREEMPTED, text="it gives way to default/b", numbers={"by": "default/b"})


def owned(name: str, pods: int) -> Object:
    made = job(name, pods)
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def resume_what_is_suspended(stage: Stage) -> None:
    """As the JobSet controller: its Jobs are suspended when it is, and it is not."""
    if stage.api.job("s-workers")["spec"].get("suspend"):
        stage.change("s-workers", {"suspend": False})


def test_it_starts_whole_gives_way_and_waits_again() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(owned("s-workers", 4))
        async with stage.scheduler():
            for _ in range(40):
                resume_what_is_suspended(stage)
                await stage.turn()
            assert len(stage.api.bound()) == 4
            stage.put(important(job("b", 4)))
            await stage.turn()
            stage.decide(Preempt("default/s-workers", 1, "default/b", WHY, None))
            for _ in range(60):
                resume_what_is_suspended(stage)
                await stage.turn()
            assert {name.rsplit("-", 1)[0] for name in stage.api.bound()} == {"b"}
            assert stage.phase("s-workers") is Phase.QUEUED
            writes = len(stage.api.writes)
            for _ in range(20):
                resume_what_is_suspended(stage)
                await stage.turn()
            assert len(stage.api.writes) == writes, "nobody writes against the other"

    play(scene())
