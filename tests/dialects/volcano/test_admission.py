"""The dialect's admission policies refuse the same requests as Volcano's webhooks, on clusters without these
webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.volcano.admission import POLICIES
from phalanx.dialects.volcano.kinds import JOBS, QUEUES
from phalanx.embedded.apimachinery.expressions.admission_policy import PolicyReader, Review, validate
from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from tests.embedded.controllers.operators.volcano.written import task

FLOWS = Kind(group="flow.volcano.sh", version="v1alpha1", plural="jobflows", name="JobFlow")
CRONS = Kind(group="batch.volcano.sh", version="v1alpha1", plural="cronjobs", name="CronJob")


def said(kind: Kind, spec: Object, old: Object | None = None) -> str:
    """What the policies say against an object, or against a change; empty: nothing."""
    resource = Resource(
        group=kind.group, version=kind.version, kind=kind.name, plural=kind.plural, namespaced=kind.namespaced
    )
    made, before = ({"metadata": {"name": "refused"}, "spec": each} for each in (spec, old or {}))
    review = Review(
        resource=resource,
        operation="UPDATE" if old else "CREATE",
        name="refused",
        obj=made,
        old=before if old else None,
        user=User(name="alice"),
    )
    by_plural = PolicyReader(
        policies=lambda plural: [body for kind, body in POLICIES if kind.plural == plural], param=_none
    )
    try:
        validate(review, by_plural)
    except StatusError as error:
        return f"{error.code} {error.message}"
    return ""


def _none(*_: str) -> None:
    return None


def job(*tasks: Object, **spec: Any) -> Object:
    return {"tasks": list(tasks), **spec}


TWICE = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]
BOTH = [{"event": "PodFailed", "exitCode": 3, "action": "RestartJob"}]
ALL = [{"event": "*", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}]
CLAIMS: Any = [{"mountPath": "/a"}]
CIRCLE = [task(name, 1, dependsOn={"name": [other]}) for name, other in ("ab", "bc", "ca")]
FLOW_CIRCLE = [{"name": name, "dependsOn": {"targets": [other]}} for name, other in ("ab", "ba")]
REFUSED: list[Any] = [
    (JOBS, job({"name": "a", "replicas": 1}), "must have containers"),
    (JOBS, job(task("a", 1), task("a", 1)), "duplicated task name"),
    (JOBS, job(task("a", 1), minAvailable=2), "should not be greater than total replicas"),
    (JOBS, job(task("a", 1, minAvailable=2)), "is greater than 'replicas'"),
    (JOBS, job(task("a", 1), plugins={"gpu": []}), "unable to find job plugin"),
    (JOBS, job(task("a", 1), plugins={"mpi": []}), "requires a task 'master'"),
    (JOBS, job(task("a", 1), queue="root"), "root queue"),
    (JOBS, job(task("a", 1), policies=TWICE), "duplicate event"),
    (JOBS, job(task("a", 1), policies=BOTH), "simultaneously"),
    (JOBS, job(task("a", 1), policies=ALL), "no other policy"),
    (JOBS, job(task("a", 1, policies=TWICE)), "a task: duplicate event"),
    (JOBS, job(task("a", 1), policies=[{"exitCode": 0, "action": "AbortJob"}]), "not a valid error code"),
    (JOBS, job(task("a", 1), policies=[{"event": "PodRunning", "action": "AbortJob"}]), "invalid policy event"),
    (JOBS, job(task("a", 1), policies=[{"event": "PodFailed", "action": "Stop"}]), "invalid policy action"),
    (JOBS, job(task("a", 1), volumes=CLAIMS), "exactly one of volumeClaim"),
    (JOBS, job(task("a", 1, dependsOn={"name": ["b"]})), "depends on a task that does not exist"),
    (JOBS, job(*CIRCLE), "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"),
    (JOBS, job(task("x", 1), *CIRCLE, task("y", 1, dependsOn={"name": ["x"]})), "acyclic graph(DAG)"),
    (JOBS, job(task("a", 3, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})), "'totalPartitions'"),
    (QUEUES, {"capability": {"cpu": 1}, "deserved": {"cpu": "1500m"}}, "less equal than capability"),
    (QUEUES, {"deserved": {"cpu": 1}, "guarantee": {"resource": {"cpu": 2}}}, "less equal than deserved"),
    (QUEUES, {"parent": "refused"}, "must not be its own parent"),
    (FLOWS, {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}]}, "a flow that does not exist"),
    (FLOWS, {"flows": FLOW_CIRCLE}, "acyclic graph(DAG)"),
    (CRONS, {"schedule": "TZ=UTC * * * * *", "jobTemplate": {"spec": job(task("a", 1))}}, "TZ and CRON_TZ"),
]


@pytest.mark.parametrize(("kind", "spec", "words"), REFUSED)
def test_what_volcano_refuses(kind: Kind, spec: Object, words: str) -> None:
    found = said(kind, spec)
    assert found.startswith("422 ")
    assert words in found


def test_what_volcano_takes() -> None:
    policies = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob", "timeout": "10s"}]
    policies += [{"exitCode": 3, "action": "AbortJob"}]  # type: ignore[dict-item]  # JSON
    tasks = (task("master", 1), task("b", 2, minAvailable=1, dependsOn={"name": ["master"]}, policies=policies))
    assert said(JOBS, job(*tasks, minAvailable=2, policies=policies, plugins={"mpi": []})) == ""
    amounts = {"capability": {"cpu": 4}, "deserved": {"cpu": 2}, "guarantee": {"resource": {"cpu": "500m"}}}
    assert said(QUEUES, {**amounts, "parent": "root"}) == ""


@pytest.mark.parametrize("length", [15, 20])
def test_a_chain_of_any_length_is_no_circle(length: int) -> None:
    chain = [task("t0", 1), *(task(f"t{at}", 1, dependsOn={"name": [f"t{at - 1}"]}) for at in range(1, length))]
    assert said(JOBS, job(*reversed(chain))) == ""


def test_a_job_may_change_its_size_and_nothing_else() -> None:
    old = job(task("a", 1))
    assert said(JOBS, job(task("a", 3), minAvailable=2), old) == ""
    assert "may not change fields other than" in said(JOBS, job(task("b", 3)), old)
