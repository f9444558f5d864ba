"""`clusters/sending/copy_writes.py`: whose copies are deleted, and what stays if a process dies between two writes."""

from __future__ import annotations

from phalanx.client.kind import JOBS
from phalanx.clusters.copies import content
from tests.clusters.several import Manager
from tests.kube.double import job
from tests.kube.test_bind_barrier import play


def test_a_foreign_job_of_the_same_name_is_left_alone() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        here.apis["w1"].put(JOBS, job("one", 1))
        here.submit("one")
        async with here.process():
            await here.until(lambda: "did not send" in here.reason("one"))
            assert here.apis["w1"].writes == []

    play(scene())


def test_copies_without_a_job_are_deleted_and_those_of_another_manager_are_not() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        for name, manager in (("ours", "manager"), ("theirs", "another")):
            copied = job(name, 1)
            copied["metadata"]["labels"] |= {content.MANAGER: manager, content.JOB: "gone", content.START: "1-0"}
            here.apis["w1"].put(JOBS, copied)
        async with here.process():
            await here.until(lambda: not here.where("default/ours"))
            assert here.where("default/theirs") == ["w1"]

    play(scene())
