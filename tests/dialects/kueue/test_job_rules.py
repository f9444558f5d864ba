"""`dialects/kueue/policies/job_rules.py`: Jobs and pods as Kueue's webhooks change and check them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import JOBS, PODS
from phalanx.dialects.job_kinds.ray import RAY_JOB
from phalanx.dialects.kueue.gangs import UNQUEUED
from phalanx.dialects.kueue.policies.job_rules import JOB_POLICIES, SIGNATURE_POLICIES
from phalanx.embedded.apimachinery.meta.resource import User
from tests.dialects.admitted import changed, refused, written

Object = dict[str, Any]
K = "kueue.x-k8s.io/"
QUEUED = {f"{K}queue-name": "team"}
OWNED = [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x", "controller": True}]
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
DEFAULT: Any = {"default": {"kind": "LocalQueue", "metadata": {"name": "default"}}}


def configured(*lines: str) -> Any:
    """The parameter object that is Kueue's Configuration."""
    return {"kueue-manager-config": {"data": {"controller_manager_config.yaml": "\n".join(lines)}}}


MANAGES = configured("manageJobsWithoutQueueName: true", "integrations:", "  frameworks:", '  - "pod"')


def job(labels: Any = None, scheduler: str = "", spec: Any = None, **meta: Any) -> Object:
    pod = {**TEMPLATE["spec"], **({"schedulerName": scheduler} if scheduler else {})}
    words = {"labels": labels} if labels is not None else {}
    return written(JOBS, {"template": {"spec": pod}, **(spec or {})}, **words, **meta)


def pod(labels: Any = None, scheduler: str = "", **meta: Any) -> Object:
    words = {"labels": labels} if labels is not None else {}
    spec = {**TEMPLATE["spec"], **({"schedulerName": scheduler} if scheduler else {})}
    return written(PODS, spec, **words, **meta)


def admitted(kind: Any, obj: Object, **params: Any) -> Object:
    return changed(JOB_POLICIES, kind, obj, params=params)


def of_job(obj: Object, **params: Any) -> tuple[Any, Any]:
    """Return whether the Job is suspended, and the scheduler of its pods."""
    spec = admitted(JOBS, obj, **params)["spec"]
    return spec.get("suspend"), spec["template"]["spec"].get("schedulerName")


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        (job(QUEUED), (True, "phalanx")),
        (job(QUEUED, "default-scheduler"), (True, "phalanx")),
        (job(QUEUED, "volcano"), (True, "volcano")),
        (job(QUEUED, spec={"managedBy": "kueue.x-k8s.io/multikueue"}), (True, "default-scheduler")),
        (job({}), (None, None)),
        (job(), (None, None)),
        (job({**QUEUED, "phalanx.dev/queue": "own"}), (None, None)),  # Phalanx's own policy changes it
        (job(QUEUED, ownerReferences=OWNED), (None, None)),
    ],
)
def test_a_job_with_a_queue_is_suspended_and_scheduled_by_phalanx(obj: Object, found: Any) -> None:
    assert of_job(obj) == found


def test_an_owner_that_does_not_control_the_job_changes_nothing() -> None:
    assert of_job(job(QUEUED, ownerReferences=[{**OWNED[0], "controller": False}])) == (True, "phalanx")


def test_a_job_without_a_queue_is_of_the_default_queue_of_its_namespace() -> None:
    found = admitted(JOBS, job(), **DEFAULT)
    assert found["metadata"]["labels"] == QUEUED | {f"{K}queue-name": "default"}
    assert (found["spec"]["suspend"], found["spec"]["template"]["spec"]["schedulerName"]) == (True, "phalanx")
    kept = admitted(JOBS, job(QUEUED), **DEFAULT)
    assert kept["metadata"]["labels"] == QUEUED


@pytest.mark.parametrize("label", ["phalanx.dev/queue", "phalanx.dev/job"])
def test_a_job_of_phalanx_gets_no_default_queue(label: str) -> None:
    assert of_job(job({label: "x"}), **DEFAULT) == (None, None)


@pytest.mark.parametrize(("by", "suspended"), [("kubernetes.io/job-controller", True), ("example.com/own", None)])
def test_a_job_of_another_controller_gets_no_default_queue(by: str, suspended: Any) -> None:
    assert of_job(job(spec={"managedBy": by}), **DEFAULT)[0] is suspended


@pytest.mark.parametrize("namespace", ["kube-system", "kueue-system"])
def test_jobs_of_the_system_are_left_alone(namespace: str) -> None:
    obj = job()
    obj["metadata"]["namespace"] = namespace
    assert of_job(obj, **{**DEFAULT, **MANAGES}) == (None, None)


@pytest.mark.parametrize(
    ("lines", "manages"),
    [
        (["manageJobsWithoutQueueName: true"], True),
        (["apiVersion: x", "manageJobsWithoutQueueName:  true  ", "x: y"], True),
        (["manageJobsWithoutQueueName: false"], False),
        (["# manageJobsWithoutQueueName: true"], False),
        (["  manageJobsWithoutQueueName: true"], False),
        ([], False),
    ],
)
def test_a_configuration_may_manage_jobs_without_a_queue(lines: list[str], manages: bool) -> None:
    found = admitted(JOBS, job(), **configured(*lines))
    notes = found["metadata"].get("annotations") or {}
    assert (found["spec"].get("suspend"), notes.get(UNQUEUED)) == ((True, "true") if manages else (None, None))


def test_managed_jobs_of_another_scheduler_are_left_to_it() -> None:
    assert of_job(job(scheduler="volcano"), **MANAGES) == (None, "volcano")


def test_pods_are_managed_if_the_configuration_lists_them() -> None:
    found = admitted(PODS, pod(), **MANAGES)
    assert found["spec"]["schedulerName"] == "phalanx"
    assert found["metadata"]["annotations"][UNQUEUED] == "true"
    for other in (
        admitted(PODS, pod(), **configured("manageJobsWithoutQueueName: true")),
        admitted(PODS, pod(), **configured("frameworks:", "- pod")),
        admitted(PODS, pod(ownerReferences=OWNED), **MANAGES),
        admitted(PODS, pod(scheduler="volcano"), **MANAGES),
    ):
        assert other["spec"].get("schedulerName") != "phalanx"


@pytest.mark.parametrize(
    ("obj", "scheduler"),
    [
        (pod(QUEUED), "phalanx"),
        (pod(QUEUED, "default-scheduler"), "phalanx"),
        (pod(QUEUED, "volcano"), "volcano"),
        (pod({}), None),
        (pod(QUEUED, ownerReferences=OWNED), None),
    ],
)
def test_a_pod_with_a_queue_is_scheduled_by_phalanx(obj: Object, scheduler: Any) -> None:
    assert admitted(PODS, obj)["spec"].get("schedulerName") == scheduler


# --- checks -----------------------------------------------------------------------------------------------------------


def noted(labels: dict[str, str], suspend: bool = True, **spec: Any) -> Object:
    """A Job with these annotations of Kueue; `_` for `-`."""
    notes = {f"{K}{key.replace('_', '-')}": text for key, text in labels.items()}
    return job(QUEUED, annotations=notes, spec={"suspend": suspend, **spec})


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (job(QUEUED), ""),
        (job({f"{K}queue-name": "a.b-c"}), ""),
        (job({f"{K}queue-name": "Team"}), "queue-name is not the name of a LocalQueue"),
        (job({f"{K}queue-name": "-a"}), "queue-name is not the name of a LocalQueue"),
        (job({**QUEUED, f"{K}max-exec-time-seconds": "60"}), ""),
        (job({**QUEUED, f"{K}max-exec-time-seconds": "0"}), "max-exec-time-seconds must be a whole number above 0"),
        (job({**QUEUED, f"{K}max-exec-time-seconds": "1m"}), "max-exec-time-seconds must be a whole number above 0"),
        (job({**QUEUED, f"{K}prebuilt-workload-name": "A"}), "prebuilt-workload-name is not the name of a Workload"),
        (noted({"job_min_parallelism": "1"}, parallelism=2), ""),
        (
            noted({"job_min_parallelism": "2"}, parallelism=2),
            "job-min-parallelism must be a whole number above 0",
        ),
        (
            noted({"job_min_parallelism": "1"}),
            "must be a whole number above 0 and below parallelism",
        ),
        (noted({"job_min_parallelism": "x"}, parallelism=2), "job-min-parallelism must be a whole number"),
        (noted({"job_completions_equal_parallelism": "true"}, completionMode="Indexed"), ""),
        (noted({"job_completions_equal_parallelism": "false"}), ""),
        (noted({"job_completions_equal_parallelism": "true"}), "requires an Indexed Job with equal numbers"),
        (job({f"{K}max-exec-time-seconds": "0"}), ""),  # it names no queue
        (job({f"{K}queue-name": "Team"}, ownerReferences=OWNED), ""),
    ],
)
def test_a_new_job(obj: Object, words: str) -> None:
    answer = refused(JOB_POLICIES, JOBS, obj)
    assert (words in answer) if words else answer == ""


RUNS = {"spec": {"suspend": False}}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("queue-name", "queue-name cannot change while the Job is not suspended"),
        ("max-exec-time-seconds", "max-exec-time-seconds cannot change while the Job is not suspended"),
        ("prebuilt-workload-name", "prebuilt-workload-name cannot change while the Job is not suspended"),
        ("priority-class", "priority-class cannot be added or removed while the Job is not suspended"),
    ],
)
def test_labels_of_a_running_job_are_fixed(key: str, words: str) -> None:
    before, after = job(QUEUED, **RUNS), job({**QUEUED, f"{K}{key}": "7"}, **RUNS)
    assert words in refused(JOB_POLICIES, JOBS, after, old=before)
    assert words in refused(JOB_POLICIES, JOBS, before, old=after) or key == "queue-name"
    suspended = job(QUEUED, spec={"suspend": True})
    assert refused(JOB_POLICIES, JOBS, job({**QUEUED, f"{K}{key}": "7"}, spec={"suspend": True}), old=suspended) == ""


def test_a_running_job_cannot_lose_its_queue() -> None:
    words = "queue-name cannot change while the Job is not suspended"
    assert words in refused(JOB_POLICIES, JOBS, job({}, **RUNS), old=job(QUEUED, **RUNS))
    assert words in refused(JOB_POLICIES, JOBS, job(), old=job(QUEUED))  # `suspend` is absent: it runs


def test_a_priority_class_may_be_exchanged() -> None:
    before, after = (job({**QUEUED, f"{K}priority-class": name}, **RUNS) for name in ("low", "high"))
    assert refused(JOB_POLICIES, JOBS, after, old=before) == ""


def test_gates_of_admission_can_only_go() -> None:
    one, two = noted({"admission_gated_by": "a/x"}), noted({"admission_gated_by": "a/x,b/y"})
    none = noted({})
    for after, before in ((one, two), (none, two), (one, one)):
        assert refused(JOB_POLICIES, JOBS, after, old=before) == ""
    for after, before in ((two, one), (one, none)):
        assert "can only be removed from kueue.x-k8s.io/admission-gated-by" in refused(
            JOB_POLICIES, JOBS, after, old=before
        )
    assert refused(JOB_POLICIES, JOBS, two) == ""


def test_a_job_that_is_being_deleted_is_not_checked() -> None:
    invalid = job({f"{K}queue-name": "Team"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert refused(JOB_POLICIES, JOBS, invalid, old=invalid) == ""


@pytest.mark.parametrize(
    ("labels", "notes", "words"),
    [
        ({}, {}, ""),
        ({"pod-group-name": "g"}, {"pod-group-total-count": "3"}, ""),
        ({"pod-group-name": "g"}, {}, "a pod of a group must set the size of the group"),
        ({"pod-group-name": "g"}, {"pod-group-total-count": "0"}, "a pod of a group must set the size of the group"),
        ({"max-exec-time-seconds": "x"}, {}, "max-exec-time-seconds must be a whole number above 0"),
        ({"queue-name": "Team"}, {}, "queue-name is not the name of a LocalQueue"),
    ],
)
def test_a_new_pod(labels: dict[str, str], notes: dict[str, str], words: str) -> None:
    words_of = {**QUEUED, **{f"{K}{key}": text for key, text in labels.items()}}
    obj = pod(words_of, annotations={f"{K}{key}": text for key, text in notes.items()})
    answer = refused(JOB_POLICIES, PODS, obj)
    assert (words in answer) if words else answer == ""


# --- signatures -------------------------------------------------------------------------------------------------------


def user_of(obj: Object, old: Object | None = None, kind: Any = JOBS, by: str = "ada") -> str | None:
    found = changed(SIGNATURE_POLICIES, kind, obj, old=old, user=User(name=by))
    user: str | None = (found["metadata"].get("annotations") or {}).get("phalanx.dev/user")
    return user


def test_a_job_is_signed_with_its_creator() -> None:
    assert user_of(job(QUEUED)) == "ada"
    assert user_of(job(QUEUED, annotations={"phalanx.dev/user": "root"})) == "ada"
    assert user_of(written(RAY_JOB.kind, {}, labels=QUEUED), kind=RAY_JOB.kind) == "ada"
    assert user_of(job({})) is None
    assert user_of(job(QUEUED, ownerReferences=OWNED)) is None


def test_a_job_is_signed_once() -> None:
    signed = job(QUEUED, annotations={"phalanx.dev/user": "ada"})
    assert user_of(signed, old=signed, by="bob") == "ada"
    assert user_of(job(QUEUED), old=job({}), by="bob") == "bob"  # it gets its queue now
    assert user_of(job(QUEUED), old=job(), by="bob") == "bob"
    assert user_of(job(QUEUED), old=job({"phalanx.dev/queue": "own"}), by="bob") is None  # Phalanx has signed it
