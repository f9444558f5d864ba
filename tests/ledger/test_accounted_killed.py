"""Killed at every step, the ledger loses no job and has none twice.

A process runs a small cluster through the ledger and is killed (SIGKILL) before its n-th step, for every n: a step is
an SQL statement, a commit, or the world's taking up of a plan. The cluster's state is in a file, as an API server's is,
and users go on deleting while nobody schedules. Another process takes over and finishes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from phalanx.ledger import accounted, store
from phalanx.ledger.accountant import JobFacts
from phalanx.ledger.accounted import Accounted
from phalanx.ledger.entry import JobEntry, State, url_of
from phalanx.ledger.store import Ledger
from phalanx.model.event import Adopted, Event, Finished, Refused, Started, Submitted
from phalanx.model.job import Job, Outcome, Phase, Placement, Role
from phalanx.model.plan import Plan, Start
from phalanx.model.pod import Shape
from phalanx.model.reason import Reason, ReasonCode

ROLES = (Role(name="main", count=1, minimum=1, shape=Shape((("cpu", 1000),))),)
PREPARE = store._prepare
NODE = (Placement(0, 0, "n1"),)


@dataclass(slots=True)
class Cluster:
    """What an API server would know, in a file: job -> uid, state, starts. Each change is durable at once."""

    file: Path
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    ever: dict[str, dict[str, Any]] = field(default_factory=dict)  # by uid: all that ever was

    @classmethod
    def read(cls, file: Path) -> Cluster:
        if not file.exists():
            return cls(file)
        known = json.loads(file.read_text())
        return cls(file, known["jobs"], known["ever"])

    def set(self, job: str, **values: Any) -> None:
        uid = values.get("uid") or self.jobs[job]["uid"]
        self.jobs[job] = self.ever[uid] = {"job": job, "starts": [], **self.ever.get(uid, {}), **values, "uid": uid}
        self._write()

    def delete(self, job: str) -> None:
        if (gone := self.jobs.pop(job, None)) is not None:
            self.ever[gone["uid"]]["deleted"] = True
            self._write()

    def _write(self) -> None:
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps({"jobs": self.jobs, "ever": self.ever}))
        part.replace(self.file)

    def look(self, job: str) -> JobFacts | None:
        found = self.jobs.get(job)
        if found is None:
            return None
        outcome = Outcome(found["outcome"]) if "outcome" in found else None
        return JobFacts(uid=found["uid"], outcome=outcome, end_s=90.0 if outcome else None, exit_code=found.get("exit"))


class World:
    """`loop.World` over that cluster; its first events describe the existing objects."""

    def __init__(self, cluster: Cluster, step: Callable[[], None]) -> None:
        self.cluster, self._step = cluster, step
        self.out: list[Event] = []
        for name, job in cluster.jobs.items():
            if job["state"] == "waiting":
                self.out.append(Submitted(described(name)))
            elif job["state"] == "running":
                at_s = job["starts"][-1]
                self.out.append(Adopted(described(name), len(job["starts"]), Phase.RUNNING, NODE, started_s=at_s))

    def events(self) -> Sequence[Event]:
        out, self.out = self.out, []
        return out

    def apply(self, plan: Plan) -> None:
        self._step()
        for action in plan.actions:
            assert isinstance(action, Start)
            starts = [*self.cluster.jobs[action.job]["starts"], action.at_s]
            self.cluster.set(action.job, state="running", starts=starts)
            self._step()
            self.out.append(Started(action.job, action.attempt))

    async def wait(self, timeout_s: float | None) -> None:
        raise AssertionError("nobody waits here")


def described(job: str) -> Job:
    return Job(id=job, queue="default", roles=ROLES, submitted_s=1.0, user="ada")


def history(cluster: Cluster, url: str, step: Callable[[], None]) -> None:
    """Do what is left to do, and be done with it."""
    world = World(cluster, step)
    with Ledger.open(url) as ledger:
        kept = Accounted(world, ledger, cluster.look, lambda: 80.0)
        kept.events()
        for act in chain(users(cluster), scheduler(cluster)):
            world.out += act
            kept.events()
            starts = tuple(
                Start(name, len(job["starts"]) + 1, NODE, at_s=10.0 * len(job["starts"]) + 10.5)
                for name, job in cluster.jobs.items()
                if job["state"] == "waiting" and job.get("may_start")
            )
            kept.apply(Plan(starts))
            kept.events()
        kept.close()


def users(cluster: Cluster) -> Iterator[list[Event]]:
    """They submit each job once, and one name twice."""
    for name in ("good", "bad", "again", "gone", "shy", "reused"):
        uid = f"{name}-1"
        if uid not in cluster.ever:
            cluster.set(f"ns/{name}", uid=uid, state="waiting", may_start=name != "shy")
            yield [Submitted(described(f"ns/{name}"))]
    if "reused-2" not in cluster.ever and cluster.ever["reused-1"]["starts"]:
        cluster.delete("ns/reused")
        cluster.set("ns/reused", uid="reused-2", state="waiting", may_start=True)
        yield [Finished("ns/reused", Outcome.DELETED), Submitted(described("ns/reused"))]


def scheduler(cluster: Cluster) -> Iterator[list[Event]]:
    yield []
    again = cluster.jobs.get("ns/again", {})
    if len(again.get("starts", ())) == 1 and again["state"] == "running":
        cluster.set("ns/again", state="waiting")
        why = Reason(code=ReasonCode.PREEMPTED, text="gave way")
        yield [Refused("ns/again", 1, why), Submitted(described("ns/again"))]
    for name, outcome, code in (("good", "succeeded", 0), ("bad", "failed", 3), ("again", "succeeded", 0),
                                ("reused", "succeeded", 0)):  # fmt: skip
        if cluster.jobs[f"ns/{name}"]["state"] == "running":
            cluster.set(f"ns/{name}", state="over", outcome=outcome, exit=code)
            yield [Finished(f"ns/{name}", Outcome(outcome))]
    for name in ("gone", "shy"):
        if f"ns/{name}" in cluster.jobs:
            cluster.delete(f"ns/{name}")
            yield [Finished(f"ns/{name}", Outcome.DELETED)]


def killed_before(step: int) -> Callable[[], None]:
    """A function that counts, and whose `step`-th call is the process's last. -1: it never is."""
    left = [step]

    def count(*_: Any) -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)
    return count


def without_fsync(connection: Any, record: object) -> None:
    PREPARE(connection, record)
    connection.execute("PRAGMA synchronous=OFF")


def killed_at(folder: Path, step: int) -> bool:
    """Play the history in a process that is killed before that step, if it comes to it; return whether it was."""
    pid = os.fork()
    if pid == 0:
        try:
            history(Cluster.read(folder / "cluster.json"), url_of(folder / "ledger.sqlite3"), killed_before(step))
            os._exit(0)
        except BaseException:  # nothing of the test may go on in the child
            import traceback

            traceback.print_exc()
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def deleted_meanwhile(folder: Path) -> bool:
    """Delete started jobs and create them again while no scheduler runs; return True if any job had started."""
    cluster, found = Cluster.read(folder / "cluster.json"), False
    for name in ("good", "gone"):
        if cluster.jobs.get(f"ns/{name}", {}).get("starts"):
            cluster.delete(f"ns/{name}")
            cluster.set(f"ns/{name}", uid=f"{name}-2", state="waiting", may_start=True)
            found = True
    return found


def finish(folder: Path) -> None:
    """Another process takes over. It is not killed, so this process can play it."""
    history(Cluster.read(folder / "cluster.json"), url_of(folder / "ledger.sqlite3"), lambda: None)
    check(folder)


def check(folder: Path) -> None:
    cluster = Cluster.read(folder / "cluster.json")
    with Ledger.open(url_of(folder / "ledger.sqlite3")) as ledger:
        entries = list(ledger.jobs())
    by_uid: dict[str, JobEntry] = {entry.uid: entry for entry in entries}
    assert len(by_uid) == len(entries)
    ran = {uid for uid, job in cluster.ever.items() if job["starts"]}
    assert ran <= set(by_uid) <= set(cluster.ever)
    for uid, job in cluster.ever.items():
        if uid not in by_uid:
            continue  # it was submitted and deleted while nobody looked, and never ran
        entry = by_uid[uid]
        times = [start.at_s for start in entry.starts]
        assert set(job["starts"]) <= set(times), "a start was lost"
        assert len(times) == len(set(times)), "a start is there twice"
        assert not entry.live, entry
        assert all(start.end_s is not None for start in entry.starts)
        if not job.get("deleted"):
            ends = {"succeeded": (State.COMPLETED, 0), "failed": (State.FAILED, 3)}
            assert (entry.state, entry.exit_code) == ends[job["outcome"]], entry
        elif "outcome" not in job:
            assert entry.state is State.CANCELLED


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In memory where that can be: a killed process loses nothing that it gave to the kernel."""
    monkeypatch.setattr(store, "_prepare", without_fsync)
    for patience in ("_WAIT_S", "_STOP_S"):  # a database that is away is another test's, a machine that stalls is none
        monkeypatch.setattr(accounted, patience, 120.0)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as name:
        yield Path(name)


@pytest.mark.long
def test_killed_at_every_step_it_loses_no_job_and_has_none_twice(folders: Path) -> None:
    steps = deletions = 0
    while True:
        folder, other = folders / f"{steps}", folders / f"{steps}-deleted"
        folder.mkdir()
        if not killed_at(folder, steps):
            break
        shutil.copytree(folder, other)
        finish(folder)
        if deleted_meanwhile(other):
            finish(other)
            deletions += 1
        shutil.rmtree(folder)
        shutil.rmtree(other)
        steps += 1
    check(folder)
    assert steps > 60
    assert deletions > 30


@pytest.mark.slow
def test_a_database_that_hangs_holds_up_no_start(tmp_path: Path) -> None:
    """Another writer holds the file: the start waits a second, not for ever, and is written when the file is free."""
    cluster = Cluster(tmp_path / "cluster.json")
    world = World(cluster, lambda: None)
    with Ledger.open(url_of(tmp_path / "ledger.sqlite3")) as ledger:
        kept = Accounted(world, ledger, cluster.look, lambda: 80.0)
        cluster.set("ns/a", uid="a-1", state="waiting")
        other = ledger._engine.connect()
        other.begin()
        world.out.append(Submitted(described("ns/a")))
        kept.events()
        kept.apply(Plan((Start("ns/a", 1, NODE, at_s=5.0),)))
        assert cluster.jobs["ns/a"]["state"] == "running"
        other.close()
        kept.events()
        kept.close()
        [entry] = ledger.jobs()
        assert (entry.state, entry.starts[0].at_s) == (State.RUNNING, 5.0)


def test_waiting_is_the_worlds(tmp_path: Path) -> None:
    class Quiet(World):
        async def wait(self, timeout_s: float | None) -> None:
            assert timeout_s == 3.0

    with Ledger.open(url_of(tmp_path / "ledger.sqlite3")) as ledger:
        cluster = Cluster(tmp_path / "cluster.json")
        kept = Accounted(Quiet(cluster, lambda: None), ledger, cluster.look, time.time)
        asyncio.run(kept.wait(3.0))
        kept.close()
