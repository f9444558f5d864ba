"""`dialects/kueue/policies/framework_rules.py`: framework jobs and serving workloads with a LocalQueue, as Kueue's
webhooks change them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import DEPLOYMENTS, JOB_SETS, JOBS, STATEFUL_SETS, Kind
from phalanx.dialects.job_kinds.appwrapper.job_form import IBM_APP_WRAPPER
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB, TRAINING
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.kueue.gangs import GROUP_COUNT, GROUP_NAME, ROLE_HASH, UNQUEUED
from phalanx.dialects.kueue.policies.framework_rules import FRAMEWORK_POLICIES, SENDING_POLICIES
from phalanx.dialects.kueue.tree.checks import CONTROLLER, SENDING
from tests.dialects.admitted import changed, refused, written
from tests.dialects.kueue.written import with_pods

Object = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
QUEUED = {QUEUE: "team"}
OWNED = [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x", "controller": True}]
DEFAULT: Any = {"default": {"kind": "LocalQueue", "metadata": {"name": "default"}}}
MANAGES: Any = {
    "kueue-manager-config": {"data": {"controller_manager_config.yaml": "manageJobsWithoutQueueName: true\n"}}
}
LWS = Kind(group="leaderworkerset.x-k8s.io", plural="leaderworkersets", name="LeaderWorkerSet")
PYTORCH = next(each.kind for each in TRAINING if each.kind.name == "PyTorchJob")


def admitted(kind: Kind, spec: Any, labels: Any = None, params: Any = None, **meta: Any) -> Object:
    words = {"labels": labels} if labels is not None else {}
    return changed(FRAMEWORK_POLICIES, kind, written(kind, spec, **words, **meta), params=params)


def suspended(kind: Kind, obj: Object) -> Any:
    """Return the value of the job's suspend field."""
    found: Any = obj.get("spec", {})
    for name in FRAMEWORKS[kind].suspend:
        found = found.get(name, {})
    return found or None


SUSPENDABLE = [kind for kind, framework in FRAMEWORKS.items() if framework.suspend]
NESTED = [kind for kind in SUSPENDABLE if len(FRAMEWORKS[kind].suspend) > 1]


@pytest.mark.parametrize("kind", SUSPENDABLE, ids=lambda kind: f"{kind.name}.{kind.group}")
def test_a_job_of_every_framework_is_born_suspended(kind: Kind) -> None:
    first, *rest = FRAMEWORKS[kind].suspend
    for spec in ({}, {"more": 1}, {first: {"kept": 1}} if rest else {"kept": 1}):
        found = admitted(kind, spec, QUEUED)
        assert suspended(kind, found) is True
        assert "kept" not in str(spec) or "kept" in (found["spec"][first] if rest else found["spec"])
    if not rest:
        assert suspended(kind, admitted(kind, None, QUEUED)) is True  # the schema then names the missing fields


@pytest.mark.parametrize("kind", SUSPENDABLE, ids=lambda kind: f"{kind.name}.{kind.group}")
def test_policies_leave_wrong_specs_to_the_schema(kind: Kind) -> None:
    nested = len(FRAMEWORKS[kind].suspend) > 1
    for spec in ("text", [1], *((None,) if nested else ())):
        for params in (None, DEFAULT, MANAGES):
            assert admitted(kind, spec, QUEUED, params).get("spec") == spec
    if nested:
        said = refused(FRAMEWORK_POLICIES, kind, written(kind, labels=QUEUED))
        assert said.endswith("denied request: spec: Required value")  # if the schema does not require the spec
        assert suspended(kind, admitted(kind, {FRAMEWORKS[kind].suspend[0]: None}, QUEUED)) is True


@pytest.mark.parametrize("kind", NESTED, ids=lambda kind: kind.name)
def test_policies_leave_a_wrong_part_with_the_suspend_field_to_the_schema(kind: Kind) -> None:
    part = FRAMEWORKS[kind].suspend[0]
    for wrong in ("text", [1], 1, False):
        for params in (None, DEFAULT, MANAGES):
            labels = None if params else QUEUED
            assert admitted(kind, {part: wrong}, labels, params)["spec"] == {part: wrong}
        said = refused(FRAMEWORK_POLICIES, kind, written(kind, {part: wrong}, labels=QUEUED))
        assert f"spec.{part}: Invalid value: must be an object" in said  # if the kind has no schema


TFJOB = next(each.kind for each in TRAINING if each.kind.name == "TFJob")
# (kind, a spec that lacks the field, the field)
NO_PODS: list[tuple[Kind, Any, str]] = [
    (RAY_CLUSTER.kind, {"suspend": True}, "headGroupSpec"),
    (RAY_CLUSTER.kind, {"headGroupSpec": None}, "headGroupSpec"),
    (RAY_CLUSTER.kind, {"headGroupSpec": "text"}, "headGroupSpec"),
    (RAY_JOB.kind, {"suspend": True}, "rayClusterSpec"),
    (RAY_JOB.kind, {"clusterSelector": None}, "rayClusterSpec"),
    (RAY_SERVICE.kind, {"rayClusterConfig": {"suspend": True}}, "rayClusterConfig.headGroupSpec"),
    (SPARK.kind, {"suspend": True}, "driver"),
    (SPARK.kind, {"driver": {}}, "executor"),
    (TFJOB, {"runPolicy": {"suspend": True}}, "tfReplicaSpecs"),
    *((kind, spec, "") for kind in (RAY_JOB.kind, SPARK.kind) for spec in (None, "text", [1])),
]
WITH_PODS = [
    *((kind, with_pods(kind, {})) for kind in SUSPENDABLE),
    (RAY_JOB.kind, {"clusterSelector": {"ray.io/cluster": "c"}}),
]


@pytest.mark.parametrize(("kind", "spec", "field"), NO_PODS)
def test_a_queued_job_whose_spec_defines_no_pods_is_refused(kind: Kind, spec: Any, field: str) -> None:
    said = refused(FRAMEWORK_POLICIES, kind, admitted(kind, spec, QUEUED))
    assert f"spec.{field}" in said
    assert "Required value: an object" in said
    stored = written(kind, spec, labels=QUEUED)
    assert refused(FRAMEWORK_POLICIES, kind, stored, old=stored) == ""
    for others in ({"labels": {}}, {"labels": QUEUED, "ownerReferences": OWNED}):
        assert refused(FRAMEWORK_POLICIES, kind, written(kind, spec, **others)) == ""


@pytest.mark.parametrize(("kind", "spec"), WITH_PODS)
def test_a_queued_job_whose_spec_defines_pods_is_allowed(kind: Kind, spec: Any) -> None:
    assert refused(FRAMEWORK_POLICIES, kind, admitted(kind, spec, QUEUED)) == ""


def test_a_stored_job_without_a_spec_may_change_if_its_labels_stay() -> None:
    before, after = (written(PYTORCH, labels={QUEUE: name}) for name in ("a", "b"))
    assert "cannot change while the job is not suspended" in refused(FRAMEWORK_POLICIES, PYTORCH, after, old=before)
    assert refused(FRAMEWORK_POLICIES, PYTORCH, before, old=before) == ""


@pytest.mark.parametrize(
    ("labels", "meta"),
    [(None, {}), ({}, {}), ({**QUEUED, "phalanx.dev/queue": "own"}, {}), (QUEUED, {"ownerReferences": OWNED})],
)
def test_other_jobs_are_left_alone(labels: Any, meta: Any) -> None:
    for kind in (RAY_JOB.kind, PYTORCH, RAY_SERVICE.kind):
        assert admitted(kind, {}, labels, **meta)["spec"] == {}


def test_a_job_without_a_queue_is_of_the_default_queue_of_its_namespace() -> None:
    for labels in (None, {"app": "a"}):
        found = admitted(RAY_JOB.kind, {}, labels, DEFAULT)
        assert found["metadata"]["labels"] == {**(labels or {}), QUEUE: "default"}
        assert found["spec"]["suspend"] is True
    assert admitted(RAY_JOB.kind, {}, {"phalanx.dev/queue": "own"}, DEFAULT)["spec"] == {}


def test_the_configuration_may_manage_jobs_without_a_queue() -> None:
    found = admitted(PYTORCH, {}, None, MANAGES)
    assert found["metadata"]["annotations"] == {UNQUEUED: "true"}
    assert found["spec"] == {"runPolicy": {"suspend": True}}
    kept = admitted(PYTORCH, {}, None, MANAGES, annotations={"own": "x"})["metadata"]["annotations"]
    assert kept == {"own": "x", UNQUEUED: "true"}


def test_an_appwrapper_of_the_first_generation_is_not_managed() -> None:
    assert admitted(IBM_APP_WRAPPER.kind, {}, None, {**DEFAULT, **MANAGES})["spec"] == {}


def test_labels_of_a_running_job_are_fixed() -> None:
    for kind, off in ((RAY_JOB.kind, {"suspend": False}), (PYTORCH, {"runPolicy": {"suspend": False}}), (PYTORCH, {})):
        before, after = (written(kind, off, labels={QUEUE: name}) for name in ("a", "b"))
        assert "queue-name cannot change while the job is not suspended" in refused(
            FRAMEWORK_POLICIES, kind, after, old=before
        )
    on = {"runPolicy": {"suspend": True}}
    before, after = (written(PYTORCH, on, labels={QUEUE: name}) for name in ("a", "b"))
    assert refused(FRAMEWORK_POLICIES, PYTORCH, after, old=before) == ""
    assert "is not the name of a LocalQueue" in refused(
        FRAMEWORK_POLICIES, PYTORCH, written(PYTORCH, on, labels={QUEUE: "A"})
    )


# --- serving workloads ------------------------------------------------------------------------------------------------

POD = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def template(kind: Kind, **spec: Any) -> Object:
    found: Object = admitted(kind, {"template": POD, **spec}, QUEUED)["spec"]["template"]
    return found


def test_pods_of_a_deployment_are_queued_one_by_one() -> None:
    found = template(DEPLOYMENTS, replicas=3)
    assert found["metadata"]["labels"] == {"app": "a", QUEUE: "team"}
    assert found["spec"]["schedulerName"] == "phalanx"
    assert GROUP_NAME not in (found["metadata"].get("annotations") or {})


def test_a_scheduler_that_the_user_chose_stays() -> None:
    pod = {**POD, "spec": {**POD["spec"], "schedulerName": "volcano"}}
    assert admitted(DEPLOYMENTS, {"template": pod}, QUEUED)["spec"]["template"]["spec"]["schedulerName"] == "volcano"
    pod = {**POD, "spec": {**POD["spec"], "schedulerName": "default-scheduler"}}
    assert admitted(DEPLOYMENTS, {"template": pod}, QUEUED)["spec"]["template"]["spec"]["schedulerName"] == "phalanx"


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"podManagementPolicy": "Parallel", "replicas": 3}, "3"),
        ({"podManagementPolicy": "Parallel"}, "1"),
        ({"podManagementPolicy": "OrderedReady", "replicas": 3}, "1"),
        ({"replicas": 3}, "1"),
    ],
)
def test_pods_of_a_stateful_set_are_a_gang_if_they_are_created_together(spec: Any, pods: str) -> None:
    found = template(STATEFUL_SETS, **spec)
    assert found["metadata"]["annotations"] == {GROUP_NAME: "a", GROUP_COUNT: pods}


def lws(**spec: Any) -> Object:
    found: Object = admitted(LWS, spec, QUEUED)["spec"]["leaderWorkerTemplate"]
    return found


def test_pods_of_a_group_of_a_leader_worker_set_are_a_gang() -> None:
    found = lws(leaderWorkerTemplate={"size": 4, "workerTemplate": POD, "leaderTemplate": POD})
    roles = {part: found[part]["metadata"]["annotations"] for part in ("leaderTemplate", "workerTemplate")}
    assert roles == {
        "leaderTemplate": {GROUP_COUNT: "4", ROLE_HASH: "leader"},
        "workerTemplate": {GROUP_COUNT: "4", ROLE_HASH: "worker"},
    }
    assert found["workerTemplate"]["spec"]["schedulerName"] == "phalanx"


def test_a_leader_that_must_be_ready_first_starts_alone() -> None:
    found = lws(startupPolicy="LeaderReady", leaderWorkerTemplate={"size": 4, "workerTemplate": POD})
    assert found["workerTemplate"]["metadata"]["annotations"] == {GROUP_COUNT: "1", ROLE_HASH: "main"}
    assert "leaderTemplate" not in found
    assert (
        lws(leaderWorkerTemplate={"workerTemplate": POD})["workerTemplate"]["metadata"]["annotations"][GROUP_COUNT]
        == "1"
    )


@pytest.mark.parametrize("spec", [None, "text", {}, {"leaderWorkerTemplate": None}, {"leaderWorkerTemplate": {}}])
def test_a_leader_worker_set_without_templates_is_left_to_the_schema(spec: Any) -> None:
    assert admitted(LWS, spec, QUEUED).get("spec") == spec


def test_a_template_of_a_leader_worker_set_may_lack_its_pod_spec() -> None:
    for pod in ({}, {"spec": None}):
        assert lws(leaderWorkerTemplate={"workerTemplate": pod})["workerTemplate"]["spec"]["schedulerName"] == "phalanx"


# --- jobs for other clusters ------------------------------------------------------------------------------------------


def sent(kind: Kind, spec: Any, queues: str = ",default/team,", labels: Any = QUEUED) -> Object:
    params: Any = {SENDING: {"data": {"queues": queues}}}
    return changed(SENDING_POLICIES, kind, written(kind, spec, labels=labels), params=params)["spec"]


IN_SPEC = (JOBS, JOB_SETS, RAY_JOB.kind, RAY_CLUSTER.kind, RAY_SERVICE.kind)


@pytest.mark.parametrize("kind", IN_SPEC, ids=lambda kind: kind.name)
def test_a_job_of_a_queue_that_sends_is_left_alone_by_its_controller(kind: Kind) -> None:
    template = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}
    spec = template if kind is JOBS else {}
    assert sent(kind, spec)["managedBy"] == CONTROLLER
    assert "managedBy" not in sent(kind, spec, queues=",default/other,other/team,default/team-b,")
    assert "managedBy" not in sent(kind, spec, labels={})


@pytest.mark.parametrize("kind", [PYTORCH, MPI_JOB.kind], ids=lambda kind: kind.name)
def test_training_jobs_have_the_field_in_their_run_policy(kind: Kind) -> None:
    assert sent(kind, {}) == {"runPolicy": {"managedBy": CONTROLLER}}
    assert sent(kind, {"runPolicy": {"x": 1}}) == {"runPolicy": {"x": 1, "managedBy": CONTROLLER}}
    own = {"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}
    assert sent(kind, own) == {"runPolicy": {"managedBy": CONTROLLER}}


def test_a_volcano_job_has_the_name_of_its_scheduler() -> None:
    assert sent(VOLCANO_JOB.kind, {}) == {"schedulerName": CONTROLLER}
    assert sent(VOLCANO_JOB.kind, {"schedulerName": "volcano"}) == {"schedulerName": CONTROLLER}
    assert sent(VOLCANO_JOB.kind, {"schedulerName": "mine"}) == {"schedulerName": "mine"}


def test_a_job_that_its_user_gave_to_another_controller_stays_with_it() -> None:
    assert sent(RAY_JOB.kind, {"managedBy": "example.com/own"}) == {"managedBy": "example.com/own"}
    assert sent(RAY_JOB.kind, {"managedBy": "ray.io/kuberay-operator"}) == {"managedBy": CONTROLLER}


def test_without_a_list_of_queues_no_job_is_sent() -> None:
    for params in ({}, {SENDING: {}}, {SENDING: {"data": {}}}):
        found = changed(SENDING_POLICIES, RAY_JOB.kind, written(RAY_JOB.kind, {}, labels=QUEUED), params=params)
        assert found["spec"] == {}
