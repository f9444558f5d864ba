"""The policy that makes a Job ours, as the embedded server carries it out."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apiserver import schema
from phalanx.embedded.apiserver.admission_policy import Reader, Review, mutate
from phalanx.embedded.apiserver.builtin import RESOURCES
from phalanx.embedded.apiserver.policies import PATCHES
from phalanx.embedded.apiserver.resource import Object, User
from phalanx.kube.policy import BINDING, POLICY

JOBS = next(one for one in RESOURCES if one.plural == "jobs")


def admitted(labels: dict[str, str], **spec: Any) -> Object:
    containers = [{"name": "main", "image": "host"}]
    template = {"spec": {"containers": containers, "schedulerName": spec.pop("scheduler", "default-scheduler")}}
    obj: Object = {"metadata": {"name": "j", "labels": labels}, "spec": {**spec, "template": template}}
    reader = Reader(policies=lambda plural: [BINDING if "bindings" in plural else POLICY], param=lambda *_: None)
    review = Review(resource=JOBS, operation="CREATE", name="j", obj=obj, user=User(name="alice"))
    found: Object = mutate(review, reader, PATCHES)["spec"]
    return found


@pytest.mark.parametrize("labels", [{"phalanx.dev/queue": "a"}, {"phalanx.dev/job": "training"}])
def test_a_job_with_our_label_is_born_suspended_and_ours(labels: dict[str, str]) -> None:
    spec = admitted(labels, suspend=False)
    assert spec["suspend"] is True
    assert spec["template"]["spec"]["schedulerName"] == "phalanx"
    assert spec["template"]["spec"]["containers"] == [{"name": "main", "image": "host"}]


@pytest.mark.parametrize("labels", [{}, {"app": "web"}])
def test_nobody_elses_job_is_touched(labels: dict[str, str]) -> None:
    assert admitted(labels, suspend=False)["suspend"] is False


def test_another_controllers_job_is_left_to_it() -> None:
    assert "suspend" not in admitted({"phalanx.dev/queue": "a"}, managedBy="kueue.x-k8s.io/multikueue")


def test_a_scheduler_that_the_user_chose_stays() -> None:
    spec = admitted({"phalanx.dev/queue": "a"}, scheduler="volcano")
    assert spec["suspend"] is True
    assert spec["template"]["spec"]["schedulerName"] == "volcano"


def test_the_policy_is_well_formed() -> None:
    policies = next(one for one in RESOURCES if one.plural == "mutatingadmissionpolicies")
    obj = {**POLICY, "spec": {**POLICY["spec"]}}
    assert schema.decode(schema.type_of(policies.schema_name), obj) == []
    assert policies.strategy.validate(obj) == []
