"""The selection of jobs to move, the dependencies of their copies, and copies that the target cluster has already."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.submission.moving.portable import MoveTally
from phalanx.cli.submission.moving.selection import choose
from phalanx.client.kind import JOBS, PODS
from phalanx.kube.read.records import RecordKey, SubmissionRecord, submitted_s

Object = dict[str, Any]
OVER = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}
RUNNING = {"active": 1}


def job(name: str, after: str = "", status: Object | None = None, **notes: str) -> FoundJob:
    words = {f"phalanx.dev/{key.replace('_', '-')}": text for key, text in notes.items()}
    words |= {"phalanx.dev/after": after} if after else {}
    meta = {"name": name, "namespace": "n", "uid": f"uid-{name}", "annotations": words}
    obj = {"metadata": meta, "spec": {"suspend": status is None}, "status": status or {}}
    return FoundJob(kind="job", namespace="n", name=name, members=(Member(kind=JOBS, obj=obj),))


def pod(name: str, node: str = "") -> FoundJob:
    obj = {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"nodeName": node}, "status": {}}
    return FoundJob(kind="pod", namespace="n", name=name, members=(Member(kind=PODS, obj=obj),))


def chosen(*jobs: FoundJob, stays: str = "", copied: frozenset[str] = frozenset()) -> tuple[Any, Any]:
    found = choose(jobs, lambda one: "may not" if one.name in stays.split() else "", copied)
    return {move.job.name: move.after for move in found.moves}, {one.name: why for one, why in found.stays}


def test_a_dependency_that_is_met_is_left_out_of_the_copy() -> None:
    prepared, broke, runs = job("prepared", status=OVER), job("broke", status=FAILED), job("runs", status=RUNNING)
    moves, _ = chosen(prepared, broke, runs, job("a", "prepared:ok"), job("b", "prepared:ok,c:ok"), job("c"))
    assert moves == {"a": "", "b": "n/c:ok", "c": None}
    moves, _ = chosen(broke, job("a", "broke:not-ok"), job("b", "runs:start"), runs, job("c", "elsewhere:ok"))
    assert moves == {"a": "", "b": "", "c": None}
    gone = job("a", "gone:ok", after_outcomes='{"n/gone": "succeeded"}')
    assert chosen(gone)[0] == {"a": ""}
    one_of_two = job("a", "broke:ok,prepared:ok", after_any="true")
    assert chosen(prepared, broke, one_of_two)[0] == {"a": ""}


def test_a_job_that_was_copied_goes_on_moving_though_what_it_waits_for_has_moved() -> None:
    lost = job("b", "a:ok", after_outcomes='{"n/a": "deleted"}')
    assert chosen(lost)[0] == {}
    assert chosen(lost, copied=frozenset({"uid-b"}))[0] == {"b": None}


@pytest.mark.parametrize(
    "one",
    [
        pod("p", node="n1"),
        job("a", admitted="{}"),
        job("a", sent_to="other"),
        job("a", status={"active": 1, "conditions": [{"type": "Suspended", "status": "True"}]}),
        FoundJob(kind="gang", namespace="n", name="g", members=(*job("a").members, *pod("p", "n1").members)),
    ],
)
def test_a_job_that_has_started_in_part_stays(one: FoundJob) -> None:
    assert not choose([one], lambda _: "").moves


def test_a_submission_counts_only_as_it_was_signed() -> None:
    key = RecordKey(secret=b"k" * 32, since_s=0.0)
    said = key.submission(50.0, "uid").text()
    assert submitted_s(said, "uid", 100.0, key) == 50.0
    assert submitted_s(said, "other", 100.0, key) == 100.0
    assert submitted_s(said.replace("50.0", "10.0"), "uid", 100.0, key) == 100.0
    assert submitted_s(SubmissionRecord(at_s=10.0).text(), "uid", 100.0, key) == 100.0, "nobody signed it"
    assert submitted_s(SubmissionRecord(at_s=10.0).text(), "uid", 100.0, None) == 10.0, "there is no key"
    assert submitted_s(key.submission(500.0, "uid").text(), "uid", 100.0, key) == 100.0
    assert submitted_s("[", "uid", 100.0, key) == submitted_s(None, "uid", 100.0, key) == 100.0


def test_what_stays_for_the_same_reason_shares_a_line() -> None:
    tally = MoveTally()
    for name in "abcde":
        tally.leave("job", name, "it runs here")
    tally.leave("job", "f", "another")
    tally.row("job").found = 6
    assert list(tally.reasons()) == [("job", "a, b, c and 2 more", "it runs here"), ("job", "f", "another")]
    assert tally.table() == [("job", "6", "0", "0", "6")]
