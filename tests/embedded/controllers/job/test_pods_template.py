"""The pod that a Job makes."""

from __future__ import annotations

from phalanx.embedded.controllers.job.pods import PodMaker
from phalanx.embedded.controllers.runtime.pod_state import INDEX_FAILURES, INDEX_IGNORED, TRACKING
from tests.embedded.controllers.objects import job, pod


def test_it_carries_its_owner_and_the_finalizer() -> None:
    made = PodMaker(job()).make(None)
    assert made["metadata"]["generateName"] == "j-"
    assert made["metadata"]["finalizers"] == [TRACKING]
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "j",
            "uid": "job-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert "hostname" not in made["spec"]


def test_an_index_is_in_name_hostname_label_annotation_and_environment() -> None:
    made = PodMaker(job(completionMode="Indexed")).make(2)
    assert (made["metadata"]["generateName"], made["spec"]["hostname"]) == ("j-2-", "j-2")
    key = "batch.kubernetes.io/job-completion-index"
    assert made["metadata"]["labels"][key] == made["metadata"]["annotations"][key] == "2"
    source = made["spec"]["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["fieldPath"]
    assert source == f"metadata.labels['{key}']"


def test_the_users_own_index_variable_stays() -> None:
    the_job = job(completionMode="Indexed")
    own = [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
    the_job["spec"]["template"]["spec"]["containers"][0]["env"] = own
    assert PodMaker(the_job).make(0)["spec"]["containers"][0]["env"] == own


def test_a_long_name_leaves_room_for_index_and_suffix() -> None:
    the_job = job(completionMode="Indexed")
    the_job["metadata"]["name"] = "n" * 63
    prefix = PodMaker(the_job).make(123)["metadata"]["generateName"]
    assert prefix.endswith("n-123-")
    assert len(prefix) == 58


def test_the_template_is_not_changed_by_its_pods() -> None:
    the_job = job(completionMode="Indexed")
    maker = PodMaker(the_job)
    one, other = maker.make(0), maker.make(1)
    assert one["spec"]["hostname"] != other["spec"]["hostname"]
    assert the_job == job(completionMode="Indexed")


def test_the_count_of_failures_is_handed_on_per_index() -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}}
    the_job = job(completionMode="Indexed", backoffLimitPerIndex=3, podFailurePolicy={"rules": [rule]})
    maker = PodMaker(the_job)
    assert maker.make(0)["metadata"]["annotations"][INDEX_FAILURES] == "0"
    counted = maker.make(0, pod("Failed", index=0, failures=1))["metadata"]["annotations"]
    assert counted[INDEX_FAILURES] == "2"
    ignored = maker.make(0, pod("Failed", index=0, failures=1, exit_code=9))["metadata"]["annotations"]
    assert (ignored[INDEX_FAILURES], ignored[INDEX_IGNORED]) == ("1", "1")
