"""`cli/submission/moving/transfer.py`: each job ends in exactly one of both clusters, whatever happens meanwhile.

`test_move.py` moves jobs between two API servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.submission.moving import transfer
from phalanx.cli.submission.moving.images import Replacement
from phalanx.cli.submission.moving.portable import Copier, MoveTally
from phalanx.cli.submission.moving.selection import Move, MoveChoice
from phalanx.cli.submission.moving.transfer import Transfer, marked, requeue
from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.client.kind import JOBS, PODS, SECRETS, Kind
from phalanx.kube.read.labels import ADMITTED, AFTER, MOVED_FROM, MOVING, SUBMITTED, USER
from phalanx.slurm.cluster.site import Site
from tests.cli.two_clusters import Object, Server, ends, made

MARKS = (MOVING, "slurm.phalanx.dev/moved-to")


def job(name: str, suspend: bool = True, **notes: str) -> Object:
    made_of = made(name, spec={"suspend": suspend, "template": {"spec": {"containers": []}}}, status={})
    made_of["metadata"]["annotations"] = notes
    return made_of


def found(source: Server, name: str, kind: Kind = JOBS) -> FoundJob:
    member = Member(kind=kind, obj=source.at(kind, name))
    return FoundJob(kind=kind.name.lower(), namespace="ns", name=name, members=(member,))


def notes(server: Server, name: str, kind: Kind = JOBS) -> Object:
    return server.at(kind, name)["metadata"].get("annotations") or {}


def moved(source: Server, target: Server, *names: str, stays: tuple[str, ...] = (), **how: Any) -> MoveTally:
    """Move these Jobs. `how`: fields of each `Move`."""
    tally = MoveTally()
    both = ends(source, target)
    here = [name for name in names if name in source.names(JOBS)]
    choice = MoveChoice()
    choice.moves.extend(Move(job=found(source, name), **how) for name in here)
    choice.stays.extend((found(source, name), "stays") for name in stays)
    copier = Copier(target=target, tally=tally)  # type: ignore[arg-type]  # a double
    asyncio.run(Transfer(both, tally, Replacement(site=Site())).run(choice, copier))
    return tally


def left(tally: MoveTally) -> dict[str, str]:
    return {one.name: one.why for one in tally.left}


def test_a_waiting_job_is_moved_with_its_user_and_its_age() -> None:
    source, target = Server("source", (JOBS, job("a", **{USER: "ada"}))), Server("target")
    tally = moved(source, target, "a")
    assert source.names(JOBS) == []
    kept = notes(target, "a")
    assert MOVING not in kept
    assert kept[USER] == "ada"
    assert target.acting["a"] == ("ada", "system:masters")  # so that admission policies record the user as its owner
    assert '"at_s":1767225600' in kept[SUBMITTED]  # when the original was created
    assert (tally.row("job").moved, tally.left) == (1, [])


def test_no_copy_exists_before_the_original_is_marked_nor_starts_before_it_is_gone() -> None:
    source, target = Server("source", (JOBS, job("a"))), Server("target")

    def copy(write: str) -> None:
        if write.startswith("create"):
            assert notes(source, "a")[MOVING] == "TARGET"
        if write == "patch Job/a":
            assert source.names(JOBS) == []

    def delete(write: str) -> None:
        if write.startswith("delete"):
            assert notes(target, "a")[MOVING] == "SOURCE"

    target.before, source.before = copy, delete
    moved(source, target, "a")
    assert target.writes == ["create Job/a", "patch Job/a"]


@pytest.mark.parametrize("when", ["patch Job/a", "delete Job/a"], ids=["before the mark", "before the deletion"])
def test_a_job_that_starts_meanwhile_stays(when: str) -> None:
    source, target = Server("source", (JOBS, job("a"))), Server("target")

    def start(write: str) -> None:
        if write == when:
            source.before = lambda write: None
            obj = source.at(JOBS, "a")
            obj["metadata"]["annotations"][ADMITTED] = "[]"
            source.put(JOBS, obj)

    source.before = start
    tally = moved(source, target, "a")
    assert target.writes == ([] if when.startswith("patch") else ["create Job/a", "delete Job/a"])
    assert target.names(JOBS) == []
    assert not set(MARKS) & notes(source, "a").keys()
    assert left(tally) == {"ns/a": "it started during the move; move again when it has ended"}
    assert tally.row("job").moved == 0


@pytest.mark.parametrize("when", ["patch Job/a", "create Job/a"], ids=["before the mark", "after the mark"])
def test_a_job_that_is_deleted_meanwhile_leaves_no_copy(when: str) -> None:
    source, target = Server("source", (JOBS, job("a"))), Server("target")

    def delete(write: str) -> None:
        if write == when:
            source.before = target.before = lambda write: None
            source.objects.clear()

    source.before = target.before = delete
    tally = moved(source, target, "a")
    assert target.names(JOBS) == source.names(JOBS) == []
    assert list(left(tally)) == ["ns/a"]


def test_a_job_that_is_replaced_by_another_of_its_name_is_not_deleted() -> None:
    source, target = Server("source", (JOBS, job("a"))), Server("target")

    def replace(write: str) -> None:
        target.before = lambda write: None
        source.objects.clear()
        source.put(JOBS, job("a"))

    target.before = replace
    moved(source, target, "a")
    assert source.names(JOBS) == ["a"]
    assert target.names(JOBS) == []


@pytest.mark.parametrize("there", [True, False])
def test_what_the_target_refuses_stays_as_it_was(there: bool) -> None:
    source, target = Server("source", (JOBS, job("a"))), Server("target")
    if there:
        target.put(JOBS, job("a"))
        before = dict(target.at(JOBS, "a"))
    else:

        def refuse(write: str) -> None:
            raise ApiRefusal(403, "Forbidden", "a policy")

        target.before = refuse
    tally = moved(source, target, "a")
    why = left(tally)["ns/a"]
    assert why.startswith("the target has another job with this name" if there else "the target refuses it: a policy")
    assert not set(MARKS) & notes(source, "a").keys()
    assert (target.at(JOBS, "a") == before) if there else target.names(JOBS) == []


def test_a_job_on_which_a_failed_one_depends_stays_too() -> None:
    source, target = Server("source", (JOBS, job("a")), (JOBS, job("b"))), Server("target", (JOBS, job("a")))
    both = ends(source, target)
    tally, choice = MoveTally(), MoveChoice()
    choice.moves.extend([Move(job=found(source, "a")), Move(job=found(source, "b"), needs=frozenset({"ns/a"}))])
    copier = Copier(target=target, tally=tally)  # type: ignore[arg-type]  # a double
    asyncio.run(Transfer(both, tally, Replacement(site=Site())).run(choice, copier))
    assert sorted(source.names(JOBS)) == ["a", "b"]
    assert target.names(JOBS) == ["a"]
    assert set(left(tally)) == {"ns/a", "ns/b"}


def test_an_object_that_changes_all_the_time_stays_marked_and_is_told() -> None:
    source, target = Server("source", (JOBS, job("a"))), Server("target")

    def change(write: str) -> None:
        if write.startswith("delete"):
            source.put(JOBS, source.at(JOBS, "a"))

    source.before = change
    tally = moved(source, target, "a")
    assert left(tally) == {"ns/a": "other programs change it too often; move again"}
    assert notes(source, "a")[MOVING] == "TARGET"
    assert notes(target, "a")[MOVING] == "SOURCE"  # neither starts
    source.before = lambda write: None
    moved(source, target, "a")
    assert source.names(JOBS) == []
    assert MOVING not in notes(target, "a")


def startable(server: Server) -> list[str]:
    """The jobs that the cluster's scheduler may start."""
    return [name for name in server.names(JOBS) if MOVING not in notes(server, name)]


@pytest.mark.parametrize("answered", [True, False], ids=["before the write", "after the write"])
def test_a_move_that_is_interrupted_at_any_write_is_completed_by_the_next(answered: bool) -> None:
    """`answered`: the interrupted write did not happen; otherwise only its answer was lost."""
    for number in range(100):
        source = Server("source", (JOBS, job("a")), (JOBS, job("b")), (SECRETS, made("s", ("Job", "a"), data={})))
        target = Server("target")
        if answered:
            source.before = target.before = _interrupt(number)
        else:
            _lose_answers(source, target, number)
        try:
            moved(source, target, "a", "b")
        except* ApiUnknown:
            pass
        else:
            assert number > 5
            return
        for name in "ab":
            assert not (name in startable(source) and name in startable(target)), (number, name)
            assert name in (*source.names(JOBS), *target.names(JOBS)), (number, name)
        source.before = target.before = lambda write: None
        _answer_again(source, target)
        moved(source, target, "a", "b")
        assert (source.names(JOBS), sorted(startable(target))) == ([], ["a", "b"]), number
        assert [ref["kind"] for ref in target.at(SECRETS, "s")["metadata"]["ownerReferences"]] == ["Job"], number
    pytest.fail("the move never ended")


def _interrupt(number: int) -> Callable[[str], None]:
    writes = 0

    def interrupt(write: str) -> None:
        nonlocal writes
        writes += 1
        if writes > number:
            raise ApiUnknown("away")

    return interrupt


def _lose_answers(source: Server, target: Server, number: int) -> None:
    writes = 0
    for server in (source, target):
        for verb in ("create", "patch", "delete"):
            call = getattr(server, verb)

            async def lost(*words: Any, call: Any = call, **more: Any) -> Any:
                nonlocal writes
                writes += 1
                answer = await call(*words, **more)
                if writes > number:
                    raise ApiUnknown("the answer was lost")
                return answer

            setattr(server, verb, lost)


def _answer_again(*servers: Server) -> None:
    for server in servers:
        for verb in ("create", "patch", "delete"):
            vars(server).pop(verb, None)


def test_an_unfinished_move_of_a_job_that_must_stay_is_taken_back() -> None:
    source = Server("source", (JOBS, job("a", **{MOVING: "TARGET"})))
    origin = f"SOURCE/{source.at(JOBS, 'a')['metadata']['uid']}"
    target = Server("target", (JOBS, job("a", **{MOVING: "SOURCE", MOVED_FROM: origin})))
    moved(source, target, stays=("a",))
    assert target.names(JOBS) == []
    assert MOVING not in notes(source, "a")


def test_a_job_of_the_target_is_no_copy_and_is_not_taken_back() -> None:
    source = Server("source", (JOBS, job("a", **{MOVING: "TARGET"})))
    target = Server("target", (JOBS, job("a", **{MOVED_FROM: "OTHER/uid"})))
    moved(source, target, stays=("a",))
    assert target.names(JOBS) == ["a"]


def test_copies_of_other_sources_are_left_alone() -> None:
    target = Server("target", (JOBS, job("a", **{MOVING: "OTHER", MOVED_FROM: "OTHER/x"})), (JOBS, job("plain")))
    both = ends(Server("source"), target)
    assert asyncio.run(marked(both)) == []
    moved(Server("source"), target)
    assert notes(target, "a")[MOVING] == "OTHER"


@pytest.mark.parametrize(("after", "kept"), [(None, "x:ok"), ("", None), ("ns/y:ok", "ns/y:ok")])
def test_a_copy_depends_on_what_the_selection_says(after: str | None, kept: str | None) -> None:
    source, target = Server("source", (JOBS, job("a", **{AFTER: "x:ok"}))), Server("target")
    moved(source, target, "a", after=after)
    assert notes(target, "a").get(AFTER) == kept


def test_a_bare_pod_loses_what_the_source_filled_in() -> None:
    pod = made("p", spec={
        "priority": 3, "preemptionPolicy": "Never", "restartPolicy": "Never",
        "volumes": [{"name": "kube-api-access-x"}, {"name": "own"}],
        "containers": [{"name": "c", "volumeMounts": [{"name": "kube-api-access-x"}, {"name": "own"}]}],
    }, status={})  # fmt: skip
    source, target = Server("source", (PODS, pod)), Server("target")
    tally, choice = MoveTally(), MoveChoice()
    choice.moves.append(Move(job=found(source, "p", PODS)))
    copier = Copier(target=target, tally=tally)  # type: ignore[arg-type]  # a double
    asyncio.run(Transfer(ends(source, target), tally, Replacement(site=Site())).run(choice, copier))
    spec = target.at(PODS, "p", "ns")["spec"]
    assert "priority" not in spec
    assert "preemptionPolicy" not in spec
    assert [one["name"] for one in spec["volumes"]] == ["own"]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "own"}]


def test_running_jobs_are_stopped_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    running = job("a", suspend=False, **{ADMITTED: "[]"})
    running["status"] = {"active": 1}
    pod = made("p", spec={"nodeName": "n"}, status={})
    source = Server("source", (JOBS, running), (PODS, pod))
    looks = 0

    async def pause(seconds: float) -> None:
        nonlocal looks
        looks += 1
        source.at(JOBS, "a")["status"] = {}

    monkeypatch.setattr(transfer.asyncio, "sleep", pause)
    jobs = [found(source, "a"), found(source, "p", PODS)]
    stopped = asyncio.run(requeue(ends(source, Server("target")), jobs))
    assert [one.name for one in stopped] == ["a"]
    assert looks == 1
    obj = source.at(JOBS, "a")
    assert (obj["spec"]["suspend"], notes(source, "a")[MOVING]) == (True, "TARGET")
    assert ADMITTED not in notes(source, "a")
    assert source.at(PODS, "p")["spec"] == {"nodeName": "n"}


def test_a_pod_that_does_not_end_is_waited_for_as_long_as_its_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    running = job("a", suspend=False)
    running["status"] = {"active": 1}
    running["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 100
    source = Server("source", (JOBS, running))
    now_s = 0.0

    async def pause(seconds: float) -> None:
        nonlocal now_s
        now_s += 10

    monkeypatch.setattr(transfer.asyncio, "sleep", pause)
    monkeypatch.setattr(transfer.time, "monotonic", lambda: now_s)
    asyncio.run(requeue(ends(source, Server("target")), [found(source, "a")]))
    assert now_s == 160.0
