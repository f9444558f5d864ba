"""A scheduler says when a job would start that was submitted now."""

from __future__ import annotations

from phalanx.cli.cluster.numbers.starting import Present, StartAnswers
from phalanx.clusters.question import question
from phalanx.kube.gang.spec.elsewhere import Sought
from tests.clusters.sought import fields_of, sought
from tests.core.builders import role
from tests.kube.double import Object
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import job, stage_with


def test_a_worker_says_when_a_job_would_start_and_why_not_at_once() -> None:
    """The manager's question is read there as a Job of that LocalQueue would be."""

    async def scene() -> None:
        stage = stage_with(3)
        stage.put(job("runs", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)

            def ask(pods: int, queue: str = "l") -> Object:
                asked = Sought(
                    **{
                        **fields_of(sought()),
                        "roles": (role("main", pods, cpu=1000),),
                        "options": {"kueue.x-k8s.io/queue-name": queue},
                    }
                )
                answers = StartAnswers(present)
                found = answers.answer(("v1", "namespaces", "default", "jobs", "-", "start"), {"job": question(asked)})
                assert found is not None
                return found()

            def present() -> Present:
                world = stage.world
                return Present(
                    cluster=stage.cluster,
                    admission=world.caches.admission,
                    defaults=world.watch.defaults,
                    now_s=stage.now_s,
                )

            assert ask(1) == {"apiVersion": "visibility.phalanx.dev/v1", "kind": "JobStart", "startsIn": 0.0}
            assert ask(2)["reason"]["code"] == "QueueLimit"
            assert "startsIn" not in ask(2), "the running job has no time limit"
            assert ask(4)["reason"]["code"] == "NeverWithinLimit"
            assert ask(1, "nowhere")["reason"]["code"] == "QueueUnknown"
            assert "default/-start" not in stage.cluster.jobs
            answers = StartAnswers(present)
            path = ("v1", "namespaces", "default", "jobs", "-", "start")
            bad = answers.answer(path, {"job": "{"})
            assert bad is not None
            assert bad()["code"] == 400
            assert answers.answer(path, {"job": question(sought())}) is not None
            busy = answers.answer(path, {"job": question(sought())})
            assert busy is not None
            assert busy()["code"] == 503, "one at a time"

    play(scene())
