"""`kube/gang/recorded_starts.py`: the start that an earlier process made, read from the objects of a gang alone."""

from __future__ import annotations

from dataclasses import replace

from phalanx.dialects.frame.dialect import CLUSTER
from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.gang.recorded_starts import UnfinishedStart, past_run, unfinished_start
from phalanx.kube.read.labels import ADMITTED, PREEMPTED
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, RecordKey, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.job import Outcome
from phalanx.model.pod import Operator, Requirement
from tests.kube.gang.recorded_effects import DEFAULTS, a_job, a_pod

KEY = RecordKey(secret=b"of these tests", since_s=50.0)
RECORD = StartRecord(attempt=2, queue="research", count=2, at_s=100.0)
NOW_S, HOLD_S = 110.0, 60.0


def signed(uid: str, record: StartRecord = RECORD) -> str:
    return KEY.sign(record, uid).text()


def objects(*members: BatchJob | Pod) -> GangObjects:
    found = GangObjects("default/j")
    for member in members:
        if isinstance(member, BatchJob):
            found.see_job(member)
        else:
            found.pods[member.uid] = member
    return found


def resumed(record: str, *, suspend: bool = False, **notes: str) -> BatchJob:
    return a_job("j", 2, suspend=suspend, annotations={ADMITTED: record, **notes})


def bare(name: str, record: str = "", *, node: str = "n1", **said: str) -> Pod:
    notes = {"annotations": {ADMITTED: record}} if record else {}
    return a_pod(name, node=node, said={"job": "j", "min_available": "2", **said}, meta=notes)


def found(*members: BatchJob | Pod, now_s: float = NOW_S, key: RecordKey | None = KEY) -> UnfinishedStart | None:
    return unfinished_start(objects(*members), DEFAULTS, now_s, HOLD_S, key)


def start(*members: BatchJob | Pod, now_s: float = NOW_S) -> UnfinishedStart:
    one = found(*members, now_s=now_s)
    assert one is not None
    return one


def test_a_running_job_with_a_signed_record_continues_in_the_queue_of_the_record() -> None:
    one = start(resumed(signed("j")))
    assert not one.leaving
    assert one.mark is None
    assert (one.record.attempt, one.spec.job.queue, one.spec.job.blocked) == (2, "research", None)
    [role] = one.spec.job.roles
    assert (role.count, role.minimum) == (2, 2)


def test_a_record_that_the_scheduler_has_not_signed_is_no_start() -> None:
    forged = RECORD.text()
    assert found(resumed(forged)) is None
    assert found(resumed(signed("another"))) is None, "the record was signed for another object"
    assert found(bare("a", forged)) is None
    assert found(resumed(forged), key=None) is not None, "without a key all records are accepted"


def test_a_gang_is_pending_without_a_started_member() -> None:
    assert found() is None
    assert found(a_job("j", 2)) is None
    assert found(resumed(signed("j"), suspend=True)) is None, "a suspended Job without bound pods"
    assert found(bare("a", signed("a"), node="")) is None, "a bare pod is started only when it is bound"


def test_a_bare_pod_without_node_is_started_if_another_cluster_runs_it() -> None:
    sent = StartRecord(attempt=1, queue="research", count=1, at_s=100.0, cluster="east")
    assert start(bare("a", signed("a", sent), node="")).record.cluster == "east"


def test_the_last_start_counts_if_members_record_several() -> None:
    first = StartRecord(attempt=1, queue="old", count=2, at_s=10.0)
    assert start(bare("a", signed("a", first)), bare("b", signed("b"))).record.attempt == 2


def test_a_suspended_job_with_bound_pods_is_being_taken_back() -> None:
    bound = a_pod("p", job="j", node="n1")
    one = start(resumed(signed("j"), suspend=True), bound)
    assert one.leaving
    assert one.record.queue == "research"
    without = start(a_job("j", 2), bound)
    assert without.leaving
    assert (without.record.queue, without.record.count) == ("default", 2), "built from the fields of the Job"


def test_a_forged_record_on_a_suspended_job_names_no_queue_and_no_cluster() -> None:
    """A user may suspend his running Job and write another queue's name into the record: until its pods are gone, the
    pods must count in the queue of the Job."""
    forged = StartRecord(attempt=7, queue="another-team", count=2, at_s=100.0, cluster="east")
    one = start(resumed(forged.text(), suspend=True), a_pod("p", job="j", node="n1"))
    assert one.leaving
    assert (one.record.queue, one.record.cluster, one.record.attempt) == ("default", "", 1)
    assert one.spec.job.queue == "default"


def test_a_mark_of_this_start_completes_the_preemption_and_an_older_mark_does_not() -> None:
    mark = PreemptionMark(by="default/first", start_s=100.0)
    record = KEY.sign(RECORD, "a").text()

    def marked(mark: PreemptionMark) -> UnfinishedStart:
        notes = {ADMITTED: record, PREEMPTED: mark.text()}
        return start(a_pod("a", node="n1", said={"job": "j", "min_available": "1"}, meta={"annotations": notes}))

    one = marked(mark)
    assert one.leaving
    assert one.mark == mark
    older = marked(PreemptionMark(by="default/first", start_s=99.0))
    assert not older.leaving
    assert older.mark is None


def test_running_jobs_with_unsigned_records_are_started_with_their_bound_pods_only() -> None:
    claims = StartRecord(attempt=9, queue="another-team", count=500, at_s=10_000.0, priority=99)
    bound = [a_pod(name, job="j", node="n1") for name in ("p", "q")]
    one = start(resumed(claims.text()), *bound, a_pod("waits", job="j"))
    assert (one.record.attempt, one.record.count, one.record.placed) == (1, 2, 2)
    assert (one.record.queue, one.record.priority, one.record.at_s) == ("default", 0, NOW_S)
    assert not one.leaving


def test_the_seat_of_a_failed_pod_is_held_for_its_replacement_until_the_hold_is_over() -> None:
    record = StartRecord(attempt=1, queue="research", count=3, at_s=100.0, placed=3)
    pods = [bare(name, signed(name, record), replaces_failed="true") for name in ("a", "b")]
    [role] = start(*pods).spec.job.roles
    assert role.count == 3, "one of three pods has failed, and its replacement is not created yet"
    [late] = start(*pods, now_s=100.0 + HOLD_S).spec.job.roles
    assert late.count == 2
    alone = [bare(name, signed(name, record)) for name in ("a", "b")]
    [kept] = start(*alone).spec.job.roles
    assert kept.count == 2, "nobody replaces the failed pods of this gang"


def test_a_job_that_has_ended_or_that_another_controller_runs_is_no_start() -> None:
    assert found(replace(resumed(signed("j")), outcome=Outcome.SUCCEEDED)) is None
    assert found(replace(resumed(signed("j")), externally_managed=True)) is None


def test_a_terminating_pod_counts_only_if_it_is_bound() -> None:
    going, said = {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"job": "j", "min_available": "2"}
    for node, count in (("", 1), ("n1", 2)):
        one = start(bare("a", signed("a")), a_pod("b", node=node, said=said, meta=going))
        assert [role.count for role in one.spec.job.roles] == [count]


def test_a_start_that_another_cluster_runs_stays_in_that_cluster() -> None:
    sent = StartRecord(attempt=1, queue="research", count=2, at_s=100.0, cluster="east")
    [role] = start(resumed(signed("j", sent))).spec.job.roles
    assert role.shape.affinity == ((Requirement(CLUSTER, Operator.IN, ("east",)),),)
    assert start(resumed(signed("j"))).spec.job.roles[0].shape.affinity == ()


# --- the run time of an ended gang ------------------------------------------------------------------------------------


def ended(name: str, started_s: float, ended_s: float) -> BatchJob:
    record = StartRecord(attempt=1, queue="research", count=2, at_s=started_s)
    job = a_job(name, 2, uid=name, annotations={ADMITTED: record.text()})
    return replace(job, outcome=Outcome.SUCCEEDED, ended_s=ended_s)


def test_a_gang_ran_from_its_last_start_to_its_last_end() -> None:
    told = past_run(objects(ended("a", 100.0, 180.0), ended("b", 120.0, 170.0)), DEFAULTS)
    assert told is not None
    assert told.run_s == 60.0
    assert [role.name for role in told.job.roles] == ["a", "b"]


def test_a_gang_has_no_run_time_if_a_job_of_it_records_none() -> None:
    assert past_run(objects(), DEFAULTS) is None
    never_started = replace(a_job("b", 2, uid="b"), outcome=Outcome.FAILED, ended_s=180.0)
    assert past_run(objects(ended("a", 100.0, 180.0), never_started), DEFAULTS) is None
    assert past_run(objects(ended("a", 100.0, 180.0), ended("b", 100.0, 0.0)), DEFAULTS) is None


def test_the_pods_of_an_ended_job_are_as_many_as_it_could_use_at_once() -> None:
    few = replace(ended("a", 100.0, 160.0), completions=1)
    told = past_run(objects(few), DEFAULTS)
    assert told is not None
    assert [role.count for role in told.job.roles] == [1]
