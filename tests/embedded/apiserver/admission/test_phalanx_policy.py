"""The policy that queues a Job for Phalanx, on the embedded server."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.expressions.admission_policy import PolicyReader, Review, mutate
from phalanx.embedded.apimachinery.meta.resource import Object, User
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.admission.policies import PATCHES
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.kube.install.admission_policy import INSTALLED, POLICY, USERS_POLICY

BINDING = INSTALLED[1][1]  # of POLICY
JOBS = next(one for one in RESOURCES if one.plural == "jobs")


def admitted(labels: dict[str, str], **spec: Any) -> Object:
    containers = [{"name": "main", "image": "host"}]
    template = {"spec": {"containers": containers, "schedulerName": spec.pop("scheduler", "default-scheduler")}}
    obj: Object = {"metadata": {"name": "j", "labels": labels}, "spec": {**spec, "template": template}}
    reader = PolicyReader(policies=lambda plural: [BINDING if "bindings" in plural else POLICY], param=lambda *_: None)
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


def signed(new: Object, old: Object | None = None, by: str = "alice") -> str | None:
    """Return the user of a Job after a write. `new`, `old`: its metadata after and before the write."""
    binding = {**BINDING, "spec": {"policyName": USERS_POLICY["metadata"]["name"]}}
    reader = PolicyReader(
        policies=lambda plural: [binding if "bindings" in plural else USERS_POLICY], param=lambda *_: None
    )
    states = [None if meta is None else {"metadata": {"name": "j", **meta}, "spec": {}} for meta in (new, old)]
    review = Review(
        resource=JOBS,
        operation="CREATE" if old is None else "UPDATE",
        name="j",
        obj=states[0],
        old=states[1],
        user=User(name=by),
    )
    found: str | None = (mutate(review, reader, PATCHES)["metadata"].get("annotations") or {}).get("phalanx.dev/user")
    return found


OURS = {"labels": {"phalanx.dev/queue": "a"}}


def of(user: str) -> Object:
    return {"annotations": {"phalanx.dev/user": user}}


def test_a_job_says_who_created_it() -> None:
    assert signed(OURS) == "alice"
    assert signed(OURS | of("bob")) == "alice"
    assert signed({"labels": {"app": "web"}}) is None


def test_nobody_can_change_whose_it_is() -> None:
    assert signed(OURS | of("bob"), OURS | of("alice"), by="bob") == "alice"
    assert signed(OURS, OURS | of("alice"), by="bob") == "alice"
    assert signed(OURS | of("alice"), OURS | of("alice"), by="controller") == "alice"
    assert signed({"labels": {}}, OURS | of("alice"), by="bob") == "alice"


def test_a_job_that_gets_our_label_later_is_of_who_gave_it() -> None:
    assert signed(OURS, {"labels": {"app": "web"}}, by="bob") == "bob"
    assert signed(OURS | of("root"), {"labels": {"app": "web"}}, by="bob") == "bob"
    assert signed({"labels": {}} | of("root"), {"labels": {}}, by="bob") == "bob"
    assert signed(OURS, OURS, by="controller") is None


@pytest.mark.parametrize("policy", [POLICY, USERS_POLICY])
def test_the_policy_is_well_formed(policy: Object) -> None:
    policies = next(one for one in RESOURCES if one.plural == "mutatingadmissionpolicies")
    obj = {**policy, "spec": {**policy["spec"]}}
    assert schema.decode(schema.type_of(policies.schema_name), obj) == []
    assert policies.strategy.validate(obj) == []
