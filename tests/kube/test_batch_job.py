"""`kube/read/workload/batch_job.py`: the pods that a Job asks for, and what its user wrote before it was started."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.dialect import PodUpdate
from phalanx.kube.read.labels import LIMITED, PARALLELISM, TEMPLATE
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.batch_job import (
    BatchJob,
    count_indexes,
    is_finished,
    original_template,
    parallelism_annotation,
    pod_set_names,
    read_job,
    template_annotation,
    time_limit_annotation,
)
from phalanx.model.job import Outcome
from tests.kube.double import job

META = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}


def read(annotations: dict[str, str] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> BatchJob:
    obj = job("j", 4)
    meta = {**obj["metadata"], **META, "annotations": annotations or {}}
    return read_job(
        {**obj, "metadata": meta, "spec": {**obj["spec"], **spec}, "status": status or {}}, AdmissionDefaults()
    )


@pytest.mark.parametrize(
    ("spec", "status", "seen", "size"),
    [
        ({"parallelism": 4, "completions": None}, {}, 0, 4),
        ({"parallelism": 4, "completions": None}, {"succeeded": 1}, 0, 0),
        ({"parallelism": 4, "completions": 10}, {"succeeded": 5}, 0, 4),
        ({"parallelism": 4, "completions": 10}, {"succeeded": 8}, 0, 2),
        ({"parallelism": 4, "completions": 10}, {"succeeded": 5}, 9, 1),
        ({"parallelism": 4, "completions": 2}, {}, 0, 2),
        ({"parallelism": 0, "completions": 2}, {}, 0, 0),
    ],
)
def test_a_job_uses_no_more_pods_than_completions_are_left(
    spec: dict[str, Any], status: dict[str, Any], seen: int, size: int
) -> None:
    """`seen`: pods that were seen to succeed, before the status says so."""
    assert read(status=status, **spec).size(seen) == size


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        ([("Complete", "True")], Outcome.SUCCEEDED),
        ([("Failed", "True")], Outcome.FAILED),
        ([("Failed", "False"), ("Suspended", "True")], None),
        ([("FailureTarget", "True")], None),
    ],
)
def test_conditions_say_how_a_job_ended(conditions: list[tuple[str, str]], outcome: Outcome | None) -> None:
    status = {"conditions": [{"type": sort, "status": value} for sort, value in conditions]}
    found = read(status=status)
    assert found.outcome is outcome
    assert found.finished is (outcome is not None)
    assert (found.size() == 0) is found.finished
    assert is_finished({"metadata": {}, "status": status}) is found.finished


def test_a_job_that_is_being_deleted_has_ended() -> None:
    assert is_finished({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})


@pytest.mark.parametrize(
    ("annotation", "requested"), [("3 of 8", 8), ("2 of 8", 3), ("3 of x", 3), ("3", 3), ("3 of " + "9" * 5000, 3)]
)
def test_a_parallelism_that_its_user_changed_counts(annotation: str, requested: int) -> None:
    """Phalanx wrote the annotation for a parallelism of 3; if the Job has another one, a user has changed it."""
    found = read({PARALLELISM: annotation}, parallelism=3, completions=None)
    assert (found.parallelism, found.requested_parallelism) == (3, requested)
    assert parallelism_annotation(3, 8) == "3 of 8"
    assert parallelism_annotation(8, 8) is None


@pytest.mark.parametrize(
    ("annotation", "now", "own"), [("600 of 3600", 600, 3600), ("600 of none", 600, None), ("600 of 3600", 700, 700)]
)
def test_a_time_limit_of_the_queue_is_not_the_users(annotation: str, now: int, own: int | None) -> None:
    assert read({LIMITED: annotation}, activeDeadlineSeconds=now).active_s == own
    assert time_limit_annotation(600, own) == f"600 of {'none' if own is None else own}"
    assert time_limit_annotation(600, 600) is None


def test_the_template_is_read_as_its_user_wrote_it() -> None:
    own = {
        "metadata": {"labels": {"app": "x", "tier": "low"}},
        "spec": {"nodeSelector": {"zone": "a"}, "containers": []},
    }
    update = PodUpdate(labels={"tier": "high", "new": "1"}, annotations={"note": "n"})
    changed = {
        "metadata": {"labels": {"app": "x", "tier": "high", "new": "1"}, "annotations": {"note": "n"}},
        "spec": {"nodeSelector": {"zone": "a", "gpu": "h100"}, "tolerations": [{"key": "gpu"}], "containers": []},
    }
    found = original_template({"annotations": {TEMPLATE: template_annotation(own, update)}}, changed)
    assert found["metadata"]["labels"] == {"app": "x", "tier": "low"}
    assert found["metadata"]["annotations"] == {}
    assert (found["spec"]["nodeSelector"], found["spec"]["tolerations"]) == ({"zone": "a"}, None)
    assert original_template({}, changed) == changed
    assert original_template({"annotations": {TEMPLATE: "["}}, changed) == changed


@pytest.mark.parametrize(("text", "count"), [("", 0), ("4", 1), ("1,3-5,7", 5), ("0-99", 100)])
def test_indexes_are_counted_without_being_listed(text: str, count: int) -> None:
    assert count_indexes(text) == count


def test_a_pod_set_has_the_name_of_its_role_or_is_main() -> None:
    first = read()
    assert pod_set_names([first]) == {"u": "main"}
