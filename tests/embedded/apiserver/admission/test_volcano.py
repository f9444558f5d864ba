"""What Volcano's webhooks write into objects, and what they refuse with code 400."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.admission import volcano
from tests.embedded.controllers.operators.volcano.written import task

BATCH = {"group": "batch.volcano.sh", "version": "v1alpha1"}
SCHEDULING = {"group": "scheduling.volcano.sh", "version": "v1beta1"}
JOBS = Resource(**BATCH, kind="Job", plural="jobs", namespaced=True)
CRON_JOBS = Resource(**BATCH, kind="CronJob", plural="cronjobs", namespaced=True)
QUEUES = Resource(**SCHEDULING, kind="Queue", plural="queues", namespaced=False)
GROUPS = Resource(**SCHEDULING, kind="PodGroup", plural="podgroups", namespaced=True)
PODS = Resource(group="", version="v1", kind="Pod", plural="pods", namespaced=True)


class Queues:
    """A reader of Queues alone: name -> (spec, status). `ours`: Queues of Phalanx."""

    def __init__(self, *ours: str, **queues: tuple[Object, Object]) -> None:
        self._ours = ours
        self._queues = {
            name: {"metadata": {"name": name}, "spec": spec, "status": status}
            for name, (spec, status) in queues.items()
        }

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        if group == "phalanx.dev":
            return {} if name in self._ours else None
        return self._queues.get(name)

    def list(self, group: str, plural: str, namespace: str = "") -> Iterable[Object]:
        return self._queues.values()


NONE = Queues()


def made(resource: Resource, spec: Object, reader: Queues = NONE, **meta: Any) -> Object:
    """The object as it is stored. Raises `StatusError`."""
    obj: Object = {"metadata": {"name": "new", **meta}, "spec": spec}
    volcano.default(resource, obj, None, reader)
    volcano.check(resource, obj, None, reader)
    return obj


def refused(resource: Resource, spec: Object, reader: Queues = NONE, **meta: Any) -> str:
    with pytest.raises(StatusError) as caught:
        made(resource, spec, reader, **meta)
    assert (caught.value.code, caught.value.reason) == (400, "")
    return caught.value.message


def job(*tasks: Object, **spec: Any) -> Object:
    return {"tasks": list(tasks), **spec}


def test_defaults_of_a_job_are_written_into_it() -> None:
    unnamed = {key: value for key, value in task("", 3).items() if key != "name"}
    spec = made(JOBS, job(unnamed, task("b", 2, minAvailable=1, maxRetry=-1), maxRetry=0))["spec"]
    assert (spec["maxRetry"], spec["minAvailable"], spec["queue"], spec["schedulerName"]) == (
        3,
        4,
        "default",
        "volcano",
    )
    found = [(each["name"], each["minAvailable"], each["maxRetry"]) for each in spec["tasks"]]
    assert found == [("default0", 3, 3), ("b", 1, -1)]
    parts = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    assert made(JOBS, job(task("a", 4, partitionPolicy=parts)))["spec"]["tasks"][0]["minAvailable"] == 2


def test_a_queue_of_no_weight_has_one() -> None:
    assert made(QUEUES, {"weight": 0})["spec"] == {"weight": 1, "reclaimable": True}


def template(**container: Any) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "x", **container}], "restartPolicy": "Never"}}


ONE, TWO = {"event": "PodFailed", "action": "RestartJob"}, {"event": "PodFailed", "action": "AbortJob"}
BAD_TEMPLATE = {"spec": {"containers": [{"name": "A", "image": "x"}], "restartPolicy": "Sometimes"}}
REFUSED: list[Any] = [
    (job(), "No task specified in job spec"),
    (job({"name": "a", "replicas": 1}), "spec.task[0].template.spec.containers: Required value"),
    (job({**task("a", 1), "template": BAD_TEMPLATE}), "spec.task[0].template.spec.restartPolicy: Unsupported value"),
    (job({**task("a", 1), "template": {"spec": {"containers": "none"}}}), "spec.task[0].template: "),
    (
        job(task("b", 1), {**task("a", 1), "template": template(resources={"requests": {"cpu": "many"}})}),
        'spec.task[1].template.spec.containers[0].resources.requests[cpu]: Invalid value: "many": quantities must',
    ),
    (
        job({**task("a", 1), "template": {"spec": {"volumes": [{}, {"emptyDir": {"sizeLimit": [1]}}]}}}),
        "spec.task[0].template.spec.volumes[1].emptyDir.sizeLimit: Invalid value: [1]: quantities must match",
    ),
    (job(task("a", 1), task("a", 1)), "duplicated task name a"),
    (job(task("A_b", 1)), "in task: A_b"),
    (
        job(task("t" * 62, 1)),
        f"create pod with name new-{'t' * 62}-0 validate failed [name part must be no more than 63",
    ),
    (job(task("a", 1), networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}), "simultaneously"),
    (job(task("a", 1), minAvailable=2), "should not be greater than total replicas"),
    (job(task("a", 1, minAvailable=2)), "'minAvailable' is greater than 'replicas' in task: a"),
    (job(task("a", 1), plugins={"gpu": []}), "unable to find job plugin: gpu"),
    (job(task("a", 1), plugins={"mpi": ["--master=head"]}), "mpi master task was not found: the job has no task head"),
    (job(task("a", 1), policies=[ONE, TWO]), "spec: duplicate event PodFailed"),
    (job(task("a", 1, policies=[{**ONE, "exitCode": 3}])), "spec.tasks[0]: must specify one of event and exitCode"),
    (job(task("a", 1), policies=[{"exitCode": 0, "action": "AbortJob"}]), "0 is not a valid error code"),
    (job(task("a", 1), policies=[{"event": "*", "action": "AbortJob"}, ONE]), "no other policy"),
    (job(task("a", 1), policies=[{"event": "PodRunning", "action": "Stop"}]), "invalid policy event: PodRunning"),
    (job(task("a", 1), volumes=[{"mountPath": "/a"}]), "either volumeClaim or volumeClaimName"),
    (job(task("a", 1, dependsOn={"name": ["b"]})), "directed acyclic graph"),
    (job(*(task(name, 1, dependsOn={"name": [other]}) for name, other in ("ab", "ba"))), "directed acyclic graph"),
    (job(task("a", 1), queue="root"), "can not submit job to root queue"),
    (job(task("a", 1), queue="absent"), 'queues.scheduling.volcano.sh "absent" not found'),
]


@pytest.mark.parametrize(("spec", "words"), REFUSED)
def test_jobs_that_are_refused(spec: Object, words: str) -> None:
    said = refused(JOBS, spec)
    assert said.startswith('admission webhook "validatejob.volcano.sh" denied the request: ')
    assert words in said


def test_a_job_without_a_spec_is_refused() -> None:
    empty: Object = {"metadata": {"name": "new"}}
    with pytest.raises(StatusError, match="No task specified in job spec"):
        volcano.check(JOBS, empty, None, NONE)
    volcano.check(JOBS, empty, empty, NONE)


def test_schedules_that_are_refused() -> None:
    made(CRON_JOBS, {"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin"})
    made(CRON_JOBS, {"schedule": "@daily"})
    for spec, words in (
        ({"schedule": "99 * * * *"}, "end of range (99) above maximum (59)"),
        ({"schedule": "hourly"}, "expected exactly 5 fields"),
        ({"schedule": "* * * * *", "timeZone": "Europe/Nowhere"}, "unknown time zone Europe/Nowhere"),
    ):
        said = refused(CRON_JOBS, spec)
        assert said.startswith('admission webhook "validatecronjob.volcano.sh" denied the request: ')
        assert words in said


def test_queues_that_take_no_job() -> None:
    reader = Queues("ours", closed=({}, {"state": "Closed"}), lab=({}, {}), vision=({"parent": "lab"}, {}))
    for queue in ("vision", "default", "ours"):
        made(JOBS, job(task("a", 1), queue=queue), reader)
    assert "status is `Closed`" in refused(JOBS, job(task("a", 1), queue="closed"), reader)
    assert "queue `lab` has 1 child queues" in refused(JOBS, job(task("a", 1), queue="lab"), reader)
    assert "status is `Closed`" in refused(GROUPS, {"queue": "closed"}, reader)
    made(GROUPS, {"queue": "lab"}, reader)


def test_a_job_may_change_its_size_and_nothing_else() -> None:
    old = made(JOBS, job(task("a", 1)))

    def changed(spec: Object) -> None:
        obj: Object = {"metadata": {"name": "new"}, "spec": spec}
        volcano.default(JOBS, obj, old, NONE)
        volcano.check(JOBS, obj, old, NONE)

    changed(job(task("a", 3, minAvailable=2), minAvailable=2))
    for spec in (job(task("b", 1)), job(task("a", 1), queue="other"), job(task("a", 1), task("b", 1))):
        with pytest.raises(StatusError, match="may not change fields other than"):
            changed(spec)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"capability": {"cpu": 1}, "deserved": {"cpu": "1500m"}}, "deserved should be less equal than capability"),
        ({"capability": {"cpu": 1}, "guarantee": {"resource": {"cpu": 2}}}, "guarantee should be less equal than cap"),
        ({"deserved": {"memory": 1}, "guarantee": {"resource": {"cpu": 1}}}, "guarantee should be less equal than des"),
        ({"parent": "new"}, "can not be itself"),
        ({"parent": "absent"}, "failed to get parent queue of queue new"),
        ({"parent": "busy"}, "cannot be the parent queue of queue new because it has allocated Pods: 2"),
        ({"parent": "q5"}, "levels deep"),
    ],
)
def test_queues_that_are_refused(spec: Object, words: str) -> None:
    deep: dict[str, tuple[Object, Object]] = {f"q{at}": ({"parent": f"q{at - 1}"}, {}) for at in range(2, 6)}
    reader = Queues(busy=({}, {"allocated": {"pods": "2"}}), q1=({}, {}), **deep)
    assert words in refused(QUEUES, spec, reader)
    made(QUEUES, {"parent": "q3"}, reader)


def test_queues_that_others_need_are_not_deleted() -> None:
    reader = Queues(lab=({}, {}), vision=({"parent": "lab"}, {}))
    for name, words in (("default", "can not be deleted"), ("lab", "it has 1 child queues: vision")):
        with pytest.raises(StatusError, match=words):
            volcano.check_deletion(QUEUES, {"metadata": {"name": name}}, reader)
    volcano.check_deletion(QUEUES, {"metadata": {"name": "vision"}}, reader)


def owner(kind: str) -> list[Object]:
    return [{"kind": kind, "name": "o", "uid": "of-owner", "controller": True}]


@pytest.mark.parametrize(
    ("meta", "group"),
    [
        ({}, "podgroup-own"),
        ({"ownerReferences": owner("ReplicaSet")}, "podgroup-of-owner"),
        ({"ownerReferences": owner("Job")}, None),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, "g"),
        ({"labels": {"phalanx.dev/job": "j"}}, None),
    ],
)
def test_a_pod_without_a_group_joins_that_of_its_owner(meta: Object, group: str | None) -> None:
    found = made(PODS, {"schedulerName": "volcano"}, uid="own", **meta)["metadata"]
    assert (found.get("annotations") or {}).get("scheduling.k8s.io/group-name") == group
    assert "annotations" not in made(PODS, {"schedulerName": "phalanx"}, uid="own")["metadata"]
