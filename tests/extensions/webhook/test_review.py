"""Point 2 of the protocol, its fallback: what the webhook answers is what the policies do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.dialects.job_kinds.supported import SIGNED_BY_THEIR_DIALECT
from phalanx.embedded.apimachinery.expressions.admission_policy import PolicyReader, Review, applies, mutate
from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apiserver.admission.policies import PATCHES
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.extensions.webhook.review import UnreadableReview, difference, judge, read
from phalanx.kube.install.admission_policy import (
    ACCOUNT,
    INSTALLED,
    RECORDS_OF_JOBS,
    RECORDS_POLICIES,
    USERS_POLICY,
    WEBHOOK,
)
from phalanx.kube.read.labels import ADMITTED, REMOVABLE, WRITTEN
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS
from tests.extensions.webhook.reviews import CREATED, QUEUE, UPDATED, Case, patched, review, signed

RAY_CLUSTERS = next(kind for kind in FRAMEWORK_KINDS if kind.name == "RayCluster")
JOBS = next(one for one in RESOURCES if one.plural == "jobs")
READER = PolicyReader(
    policies=lambda plural: [body for kind, body in INSTALLED if kind.plural == plural], param=lambda *_: None
)


def answered(asked: Any) -> Any:
    """By way of bytes, as on the wire."""
    return judge(read(json.dumps(asked).encode())).answer


def by_policy(resource: Resource, obj: Any, old: Any) -> Any:
    """The object as the embedded server's own policies leave it."""
    operation = "CREATE" if old is None else "UPDATE"
    asked = Review(resource=resource, operation=operation, name="train", obj=obj, old=old, user=User(name="admin"))
    return mutate(asked, READER, PATCHES)


@pytest.mark.parametrize("case", [*CREATED, *UPDATED], ids=lambda case: case.name)
def test_an_object_becomes_what_the_policies_make_of_it(case: Case) -> None:
    job, old = case.job(), case.old.job() if case.old else None
    expected = by_policy(JOBS, job, old)
    assert patched(job, answered(review(job, old))) == expected


def test_the_table_tells_something() -> None:
    """There is a case for each outcome: queued, signed only, unchanged."""
    found = {case.name: by_policy(JOBS, case.job(), None) for case in CREATED}
    assert found["queued"]["spec"]["suspend"] is True
    assert found["queued"]["spec"]["template"]["spec"]["schedulerName"] == "phalanx"
    assert found["anothers-scheduler"]["spec"]["template"]["spec"]["schedulerName"] == "volcano"
    assert found["forged"]["metadata"]["annotations"] == signed("admin")
    assert found["forged-without-label"]["metadata"]["annotations"] == signed("admin")
    assert "suspend" not in found["of-another-manager"]["spec"]
    assert found["not-ours"] == Case(name="not-ours").job()


@pytest.mark.parametrize(
    "kind", [kind for kind in FRAMEWORK_KINDS if kind not in SIGNED_BY_THEIR_DIALECT], ids=lambda kind: kind.name
)
def test_jobs_of_frameworks_are_signed_and_no_more(kind: Any) -> None:
    obj = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "t", "labels": QUEUE}, "spec": {}}
    found = patched(obj, answered(review(obj, plural=kind.plural, group=kind.group, version=kind.version)))
    assert found == {**obj, "metadata": {**obj["metadata"], "annotations": signed("admin")}}


@pytest.mark.parametrize("kind", FRAMEWORK_KINDS, ids=lambda kind: kind.name)
def test_what_the_scheduler_notes_of_a_frameworks_job_nobody_else_writes(kind: Any) -> None:
    plain, noted = (framework_job(kind, said) for said in ({}, {"phalanx.dev/template.worker": "{}"}))
    assert of_kind(kind, noted) == of_kind(kind, noted, plain) == of_kind(kind, plain, noted) == "refused"
    assert of_kind(kind, noted, noted) == "unchanged"
    assert of_kind(kind, noted, plain, ACCOUNT) == of_kind(kind, plain, noted, ACCOUNT) == "unchanged"


def test_a_ray_cluster_is_made_with_the_notes_of_its_ray_job() -> None:
    """KubeRay copies annotations; they are not read on parts of another object."""
    noted = framework_job(RAY_CLUSTERS, {ADMITTED: "{}", "phalanx.dev/template.head": "{}"})
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "a", "uid": "u", "controller": True}
    part = {**noted, "metadata": {**noted["metadata"], "ownerReferences": [owner]}}
    assert of_kind(RAY_CLUSTERS, noted) == "refused"
    assert of_kind(RAY_CLUSTERS, part) == "unchanged"
    other = {**part, "metadata": {**part["metadata"], "annotations": {**signed("admin"), ADMITTED: "x"}}}
    assert of_kind(RAY_CLUSTERS, other, part) == "refused"


def framework_job(kind: Any, said: dict[str, str]) -> Any:
    meta = {"name": "t", "labels": QUEUE, "annotations": {**signed("admin"), **said}}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": {}}


def of_kind(kind: Any, obj: Any, old: Any = None, user: str = "admin") -> str:
    asked = review(obj, old, user=user, plural=kind.plural, group=kind.group, version=kind.version)
    return judge(read(json.dumps(asked).encode())).outcome


def test_whatever_a_policy_changes_is_asked_about() -> None:
    """One question covers both policies: the conditions under which it is asked hold wherever either does anything."""
    (hook,) = WEBHOOK["webhooks"]
    narrowed = {**USERS_POLICY["spec"], "matchConditions": hook["matchConditions"], "mutations": [TOUCH]}
    policies = {"mutatingadmissionpolicies": [{**USERS_POLICY, "spec": narrowed}]}
    asked_about = PolicyReader(policies=lambda plural: policies.get(plural) or READER_BINDINGS, param=lambda *_: None)
    for case in (*CREATED, *UPDATED):
        job, old = case.job(), case.old.job() if case.old else None
        if by_policy(JOBS, job, old) != job:
            operation = "CREATE" if old is None else "UPDATE"
            one = Review(resource=JOBS, operation=operation, name="t", obj=job, old=old, user=User(name="admin"))
            assert mutate(one, asked_about, PATCHES)["metadata"]["generateName"] == "asked", case.name


NOTED = dict.fromkeys(WRITTEN, "1")


@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_scheduler_notes_nobody_else_writes(name: str) -> None:
    plain, noted, other = (
        Case(name="t", labels=QUEUE, annotations={**signed("admin"), **said}) for said in ({}, {name: "1"}, {name: "2"})
    )
    assert outcome(noted.job()) == outcome(noted.job(), plain.job()) == outcome(other.job(), noted.job()) == "refused"
    assert outcome(noted.job(), noted.job()) == "unchanged"
    assert outcome(plain.job(), noted.job()) == ("unchanged" if name in REMOVABLE else "refused")
    for now, then in ((noted, plain), (other, noted), (plain, noted)):
        assert outcome(now.job(), then.job(), user=ACCOUNT) == "unchanged"


def test_an_api_server_asks_about_what_would_be_refused_and_not_about_what_the_scheduler_writes() -> None:
    (hook,) = WEBHOOK["webhooks"]
    asking = [{**RECORDS_OF_JOBS, "spec": {**RECORDS_OF_JOBS["spec"], "matchConditions": hook["matchConditions"]}}]
    found = {"validatingadmissionpolicies": asking}
    reader = PolicyReader(policies=lambda plural: found.get(plural) or CHECK_BINDINGS_MADE, param=lambda *_: None)
    plain, noted = (Case(name="t", labels=QUEUE, annotations=said).job() for said in (signed("a"), signed("a") | NOTED))

    def asked(now: Any, then: Any, user: str) -> bool:
        one = Review(resource=JOBS, operation="UPDATE", name="t", obj=now, old=then, user=User(name=user))
        return any(applies(bound, one, one.resource) for bound in reader.bound("validatingadmissionpolicies", one))

    assert asked(noted, plain, "a")
    assert not asked(noted, noted, "a")
    assert not asked(noted, plain, ACCOUNT)


def outcome(job: Any, old: Any = None, user: str = "admin") -> str:
    return judge(read(json.dumps(review(job, old, user=user)).encode())).outcome


TOUCH = {
    "patchType": "ApplyConfiguration",
    "applyConfiguration": {"expression": 'Object{metadata: Object.metadata{generateName: "asked"}}'},
}
CHECK_BINDINGS_MADE = [body for kind, body in RECORDS_POLICIES if kind.plural.endswith("bindings")]
READER_BINDINGS = [body for kind, body in INSTALLED if kind.plural.endswith("bindings")]


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "DELETE", "object": None},
        {"operation": "CONNECT"},
        {"subResource": "status"},
        {"resource": {"group": "", "version": "v1", "resource": "pods"}},
        {"resource": {"group": "batch", "version": "v1beta1", "resource": "jobs"}},
        {"object": None},
    ],
    ids=str,
)
def test_what_no_policy_is_about_passes_as_it_is(change: Any) -> None:
    asked = review(Case(name="queued", labels=QUEUE).job())
    asked["request"].update(change)
    response = answered(asked)["response"]
    assert response == {"uid": asked["request"]["uid"], "allowed": True}


def test_what_the_policy_cannot_judge_is_refused() -> None:
    """`failurePolicy: Fail`: a Job that is none is not let through unsigned."""
    job = Case(name="queued", labels=QUEUE).job() | {"spec": {}}
    response = answered(review(job))["response"]
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert "policy 'jobs.phalanx.dev'" in response["status"]["message"]
    with pytest.raises(Exception, match="resulted in error"):
        by_policy(JOBS, job, None)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "truncated"),
        (b"hello", "malformed"),
        (b"[]", "object"),
        (b"[" * 100_000, "not an AdmissionReview"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "request"),
        (b'{"kind": "Pod", "apiVersion": "v1", "request": {}}', "not an AdmissionReview"),
        (json.dumps(review({}) | {"apiVersion": "admission.k8s.io/v1beta1"}).encode(), "v1beta1"),
        (json.dumps(review({}) | {"kind": "Review"}).encode(), "Review"),
        (json.dumps(review("text")).encode(), "object"),
        (json.dumps(review([])).encode(), "object"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_review_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(UnreadableReview, match=why):
        read(body)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_depth_is_no_weapon(depth: int) -> None:
    job = Case(name="queued", labels=QUEUE).job()
    text = json.dumps(review(job)).replace('"Never"', '{"a":' * depth + "1" + "}" * depth)
    try:
        request = read(text.encode())
    except UnreadableReview:
        return
    assert judge(request).outcome == "changed"


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, [{"op": "add", "path": "/a/c", "value": 2}]),
        ({"a": 1, "b": 2}, {"a": 1}, [{"op": "remove", "path": "/b"}]),
        ({"x/y~z": 1}, {"x/y~z": 2}, [{"op": "replace", "path": "/x~1y~0z", "value": 2}]),
        ({"a": [1, 2]}, {"a": [1]}, [{"op": "replace", "path": "/a", "value": [1]}]),
        ({"a": None}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
    ],
)
def test_a_difference_is_what_changed_and_nothing_else(before: Any, after: Any, patch: Any) -> None:
    assert difference(before, after) == patch
