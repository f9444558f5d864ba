"""Warnings of a worker become Events of the job on the manager."""

from __future__ import annotations

from phalanx.client.kind import EVENTS
from tests.clusters.several import Manager
from tests.kube.double import Api
from tests.kube.test_bind_barrier import play


def test_warnings_of_a_cluster_become_events_of_the_job_once_and_a_bounded_number() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: here.where("default/one") == ["w1"])
            here.begin()
            await here.until(lambda: "startTime" in here.api.job("one")["status"])
            uid = here.apis["w1"].job("one")["metadata"]["uid"]
            for number in range(9):
                warn(here.apis["w1"], uid, number)
            asked = len(here.told)
            await here.turn()
            assert len(here.told) == asked, "it is not in trouble yet"
            for _ in range(4):
                here.stage.now_s += 60
                await here.turn()
            assert here.told == [f"FailedMount: cluster w1: no {number}" for number in range(5)]

    def warn(api: Api, uid: str, number: int) -> None:
        for kind, text in (("Warning", f"no {number}"), ("Normal", "fine")):
            meta = {"name": f"e{number}{kind}", "namespace": "default"}
            about = {"uid": uid}
            api.put(
                EVENTS,
                {"metadata": meta, "involvedObject": about, "type": kind, "reason": "FailedMount", "message": text},
            )

    play(scene())
