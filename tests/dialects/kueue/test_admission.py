"""Admission policies in the API server replace Kueue's webhooks: they queue Jobs, and refuse the same requests with the
same code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import CONFIG_MAPS, CRDS, DEPLOYMENTS, JOBS, NAMESPACES, PODS, Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.form import Framework, at, nested
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.dialects.job_kinds.supported import FRAMEWORKS, SIGNED_BY_THEIR_DIALECT
from phalanx.dialects.kueue import gangs, kinds
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.kueue.tree.checks import CONTROLLER, SENDING
from phalanx.dialects.volcano.kinds import QUEUES as VOLCANO_QUEUES
from phalanx.kube.install.definitions import install_dialect
from tests.dialects.kueue.written import cluster_queue, group, named, with_pods
from tests.embedded.apiserver.process import ServerProcess

pytestmark = pytest.mark.slow
PREFIX = "kueue.x-k8s.io/"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess.started(tmp_path_factory.mktemp("kueue")) as found:
        asyncio.run(_install(found))
        yield found


async def _install(server: ServerProcess) -> None:
    async with await Connection.open(server.kubeconfig) as api:
        await install_dialect(api, KUEUE)


def send(server: ServerProcess, kind: Kind, obj: Object, namespace: str = "default") -> Object | int:
    """The object as the server has it, or the code of its refusal."""

    async def sent() -> Object | int:
        async with await Connection.open(server.kubeconfig) as api:
            body = {"apiVersion": kind.api_version, "kind": kind.name, **obj}
            try:
                return await api.create(kind, body, namespace if kind.namespaced else "")
            except ApiRefusal as error:
                return error.code

    return asyncio.run(sent())


def test_jobs_of_a_queue_that_sends_them_away_are_left_alone_by_their_controllers(server: ServerProcess) -> None:
    space = {"metadata": {"name": "kueue-system"}}
    send(server, NAMESPACES, space)
    listed = {"metadata": {"name": SENDING}, "data": {"queues": ",default/away,default/farther,"}}
    assert not isinstance(send(server, CONFIG_MAPS, listed, "kueue-system"), int)
    for queue, manager in (("away", CONTROLLER), ("way", None), ("farther", CONTROLLER)):
        found = send(server, JOBS, job(f"sent-{queue}", {"queue-name": queue}))
        assert not isinstance(found, int)
        assert found["spec"].get("managedBy") == manager
        scheduler = "default-scheduler" if manager else "phalanx"
        assert found["spec"]["template"]["spec"]["schedulerName"] == scheduler
    other = send(server, JOBS, job("sent-other", {"queue-name": "away"}, managedBy="example.com/mine"))
    assert not isinstance(other, int)
    assert other["spec"]["managedBy"] == "example.com/mine"


POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}


def test_a_volcano_job_of_a_queue_that_sends_its_jobs_away_names_the_manager(server: ServerProcess) -> None:
    send(server, NAMESPACES, {"metadata": {"name": "kueue-system"}})
    listed = {"metadata": {"name": SENDING}, "data": {"queues": ",default/away,default/farther,"}}
    send(server, CONFIG_MAPS, listed, "kueue-system")
    send(server, CRDS, definition(VOLCANO_JOB))
    queues = definition(VOLCANO_JOB)
    names = {"plural": "queues", "singular": "queue", "kind": "Queue", "listKind": "QueueList"}
    versions = [{**queues["spec"]["versions"][0], "name": "v1beta1"}]
    queues["spec"] |= {"group": VOLCANO_QUEUES.group, "scope": "Cluster", "names": names, "versions": versions}
    queues["metadata"]["name"] = f"queues.{VOLCANO_QUEUES.group}"
    send(server, CRDS, queues)
    sent_when_served(server, VOLCANO_QUEUES, {"metadata": {"name": "default"}, "spec": {}, "status": {"state": "Open"}})
    pods = {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}
    tasks = {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": pods}}]}
    for queue, said, scheduler in (
        ("away", {}, CONTROLLER),
        ("farther", {"schedulerName": "volcano"}, CONTROLLER),
        ("stays", {"schedulerName": "volcano"}, "volcano"),
    ):
        meta = {"name": queue, "labels": {f"{PREFIX}queue-name": queue}}
        made = sent_when_served(server, VOLCANO_JOB.kind, {"metadata": meta, "spec": {**tasks, **said}})
        assert made["spec"]["schedulerName"] == scheduler


def job(name: str, labels: dict[str, str], annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": name, "labels": {f"{PREFIX}{key}": text for key, text in labels.items()}}
    meta |= {"annotations": {f"{PREFIX}{key}": text for key, text in (annotations or {}).items()}}
    return {"metadata": meta, "spec": {"template": {"spec": POD}, **spec}}


def test_a_job_that_names_a_queue_waits_for_our_scheduler(server: ServerProcess) -> None:
    made = send(server, JOBS, job("queued", {"queue-name": "l"}))
    assert isinstance(made, dict)
    assert (made["spec"]["suspend"], made["spec"]["template"]["spec"]["schedulerName"]) == (True, "phalanx")
    other = send(server, JOBS, job("other", {}))
    assert isinstance(other, dict)
    assert (other["spec"]["suspend"], other["spec"]["template"]["spec"]["schedulerName"]) == (
        False,
        "default-scheduler",
    )


def test_a_job_that_names_none_is_of_the_local_queue_default_where_there_is_one(server: ServerProcess) -> None:
    server.make_namespace("team")
    send(server, kinds.LOCAL_QUEUES, named("default", spec={"clusterQueue": "a"}), "team")
    made = send(server, JOBS, job("plain", {}), "team")
    assert isinstance(made, dict)
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "default"}
    assert made["spec"]["suspend"] is True
    ours = job("ours", {})
    ours["metadata"]["labels"]["phalanx.dev/queue"] = "default"
    made = send(server, JOBS, ours, "team")
    assert isinstance(made, dict)
    assert "kueue.x-k8s.io/queue-name" not in made["metadata"]["labels"]


REFUSED: list[Any] = [
    (JOBS, job("a", {"queue-name": "Bad_Name"}), 403),
    (JOBS, job("b", {"queue-name": "l"}, {"job-min-parallelism": "2"}, parallelism=2), 403),
    (JOBS, job("c", {"queue-name": "l", "max-exec-time-seconds": "0"}), 403),
    (JOBS, job("d", {"queue-name": "l"}, {"job-completions-equal-parallelism": "true"}), 403),
    (PODS, {**job("e", {"queue-name": "l", "pod-group-name": "g"}), "spec": POD}, 403),
    (PODS, {**job("f", {"queue-name": "l", "max-exec-time-seconds": "9999999999"}), "spec": POD}, 403),
    (kinds.CLUSTER_QUEUES, cluster_queue("a", queueingStrategy="Random"), 422),
    (kinds.CLUSTER_QUEUES, cluster_queue("b", fairSharing={"weight": "-1"}), 403),
    (kinds.CLUSTER_QUEUES, cluster_queue("c", group(f={"cpu": {"nominalQuota": 1, "borrowingLimit": 1}})), 422),
    (kinds.CLUSTER_QUEUES, cluster_queue("d", group(f={"cpu": {"nominalQuota": 1, "lendingLimit": 1}})), 403),
    (
        kinds.CLUSTER_QUEUES,
        cluster_queue("e", group(f={"cpu": {"nominalQuota": 1, "lendingLimit": 2}}), cohortName="all"),
        403,
    ),
    (kinds.CLUSTER_QUEUES, cluster_queue("f", group(f={"cpu": 1}), group(g={"cpu": 1})), 403),
    (kinds.CLUSTER_QUEUES, cluster_queue("g", group(f={"cpu": 1}), group(f={"memory": 1})), 403),
    (kinds.COHORTS, named("a", spec={"resourceGroups": [group(f={"cpu": -1})]}), 403),
    (kinds.COHORTS, named("b", spec={"resourceGroups": [group(f={"cpu": 1}), group(f={"memory": 1})]}), 403),
    (
        kinds.COHORTS,
        named("c", spec={"resourceGroups": [group(f={"cpu": {"nominalQuota": 1, "lendingLimit": 1}})]}),
        403,
    ),
    (
        kinds.COHORTS,
        named("d", spec={"resourceGroups": [group(f={"cpu": {"nominalQuota": 1, "borrowingLimit": 1}})]}),
        403,
    ),
    (kinds.COHORTS, named("e", spec={"fairSharing": {"weight": "-1"}}), 403),
    (kinds.RESOURCE_FLAVORS, named("t", spec={"nodeTaints": [{"key": "a", "effect": "NoSchedule"}] * 2}), 403),
    (kinds.RESOURCE_FLAVORS, named("e", spec={"nodeTaints": [{"key": "a", "effect": "Sometimes"}]}), 422),
]


def test_jobs_without_a_queue_are_suspended_if_the_configuration_manages_them(server: ServerProcess) -> None:
    config = Kind(plural="configmaps", name="ConfigMap")
    send(server, NAMESPACES, {"metadata": {"name": "kueue-system"}})
    plain = send(server, JOBS, {"metadata": {"name": "before"}, "spec": {"template": {"spec": POD}}})
    assert isinstance(plain, dict)
    assert plain["spec"]["suspend"] is False
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nmanageJobsWithoutQueueName: true\n"
    body = {"metadata": {"name": "kueue-manager-config"}, "data": {"controller_manager_config.yaml": text}}
    assert isinstance(send(server, config, body, "kueue-system"), dict)
    spec = {"template": {"spec": POD}}
    made = sent_until(server, lambda number: {"metadata": {"name": f"managed-{number}"}, "spec": spec})
    assert made["metadata"]["annotations"] == {gangs.UNQUEUED: "true"}
    assert made["spec"]["template"]["spec"]["schedulerName"] == "phalanx"
    own = send(server, JOBS, {"metadata": {"name": "own", "labels": {"phalanx.dev/queue": "q"}}, "spec": spec})
    assert isinstance(own, dict)
    assert own["spec"]["suspend"] is False
    for kind in (MPI_JOB.kind, RAY_SERVICE.kind, RAY_CLUSTER.kind):
        framework = FRAMEWORKS[kind]
        send(server, CRDS, definition(framework))
        meta = {"name": "managed", "annotations": {"a": "b"}}
        managed = sent_when_served(server, kind, {"metadata": meta, "spec": with_pods(kind, {})})
        assert at(managed["spec"], framework.suspend) is True, kind
        assert managed["metadata"]["annotations"] == {"a": "b", gangs.UNQUEUED: "true"}
    assert "annotations" not in made_pod(server, "without-pods")["metadata"]
    frameworks = 'integrations:\n  frameworks:\n  - "batch/job"\n  - "pod"\n'
    on = {"data": {"controller_manager_config.yaml": text + frameworks}}
    assert isinstance(change(server, config, body["metadata"]["name"], on, "kueue-system"), dict)
    pod = until_managed(server)
    assert pod["spec"]["schedulerName"] == "phalanx"
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": True}
    assert "annotations" not in made_pod(server, "owned", ownerReferences=[owner])["metadata"]
    off = {"data": {"controller_manager_config.yaml": text.replace("true", "false")}}
    assert isinstance(change(server, config, body["metadata"]["name"], off, "kueue-system"), dict)
    sent_until(server, lambda number: {"metadata": {"name": f"after-{number}"}, "spec": spec}, suspended=False)


def test_a_frameworks_job_without_a_queue_gets_the_local_queue_default(server: ServerProcess) -> None:
    server.make_namespace("crew")
    send(server, kinds.LOCAL_QUEUES, named("default", spec={"clusterQueue": "a"}), "crew")
    for kind in (MPI_JOB.kind, RAY_SERVICE.kind, RAY_CLUSTER.kind):
        send(server, CRDS, definition(FRAMEWORKS[kind]))
        obj = {"metadata": {"name": "d", "labels": {"a": "b"}}, "spec": with_pods(kind, {})}
        made = sent_when_served(server, kind, obj, "crew")
        assert made["metadata"]["labels"] == {"a": "b", f"{PREFIX}queue-name": "default"}
        assert at(made["spec"], FRAMEWORKS[kind].suspend) is True


def made_pod(server: ServerProcess, name: str, **meta: object) -> Object:
    found = send(server, PODS, {"metadata": {"name": name, **meta}, "spec": POD})
    assert isinstance(found, dict)
    return found


def until_managed(server: ServerProcess, most_s: float = 60.0) -> Object:
    """The first pod that is marked: the server may see the ConfigMap a moment later."""
    end_s, number = time.monotonic() + most_s, 0
    while time.monotonic() < end_s:
        number += 1
        pod = made_pod(server, f"managed-{number}")
        if (pod["metadata"].get("annotations") or {}).get(gangs.UNQUEUED) == "true":
            return pod
    raise AssertionError("no pod was marked")


def sent_until(
    server: ServerProcess, body: Callable[[int], Object], most_s: float = 60.0, *, suspended: bool = True
) -> Object:
    """The first such Job that is created suspended, or not: the server may see the ConfigMap a moment later."""
    end_s, number = time.monotonic() + most_s, 0
    while time.monotonic() < end_s:
        made, number = send(server, JOBS, body(number)), number + 1
        if isinstance(made, dict) and made["spec"]["suspend"] is suspended:
            return made
    raise AssertionError(f"{number} Jobs were created, and none had suspend: {suspended}")


@pytest.mark.parametrize(("kind", "obj", "code"), REFUSED)
def test_what_kueue_refuses(server: ServerProcess, kind: Kind, obj: Object, code: int) -> None:
    assert send(server, kind, obj) == code


def test_what_kueue_takes(server: ServerProcess) -> None:
    groups = (group(f={"cpu": {"nominalQuota": 1, "lendingLimit": 1}}), group(g={"gpu": 1}))
    for spec in ({"cohortName": "all"}, {"cohort": "all"}):
        made = send(
            server, kinds.CLUSTER_QUEUES, cluster_queue(f"ok-{len(spec)}-{next(iter(spec)).lower()}", *groups, **spec)
        )
        assert isinstance(made, dict), made
    limits = {"nominalQuota": 1, "lendingLimit": 5, "borrowingLimit": 1}
    cohort = named("inner", spec={"parentName": "outer", "resourceGroups": [group(f={"cpu": limits})]})
    assert isinstance(made := send(server, kinds.COHORTS, cohort), dict), made


def definition(framework: Framework) -> Object:
    """The kind's own definition, as open as can be: what is tested is a policy."""
    kind = framework.kind
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": kind.plural, "singular": kind.name.lower(), "kind": kind.name, "listKind": f"{kind.name}List"}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    approved = {"api-approved.kubernetes.io": "unapproved, of a test"}  # a group of k8s.io asks for it
    return {"metadata": {"name": f"{kind.plural}.{kind.group}", "annotations": approved}, "spec": spec}


SUSPENDED = [kind for kind, framework in FRAMEWORKS.items() if framework.suspend]


@pytest.mark.parametrize("kind", SUSPENDED, ids=lambda kind: kind.name)
def test_a_frameworks_job_that_names_a_queue_is_created_suspended(server: ServerProcess, kind: Kind) -> None:
    framework = FRAMEWORKS[kind]
    send(server, CRDS, definition(framework))
    with_policy = nested(framework.suspend[:-1], {"x": 1}) if len(framework.suspend) > 1 else {"x": 1}
    for number, spec in enumerate(({}, with_policy, nested(framework.suspend, False))):
        obj = {"metadata": {"name": f"q{number}", "labels": QUEUED}, "spec": with_pods(kind, spec)}
        made = sent_when_served(server, kind, obj)
        assert at(made["spec"], framework.suspend) is True
    other = sent_when_served(server, kind, {"metadata": {"name": "other"}, "spec": {}})
    assert at(other["spec"], framework.suspend) is None
    owner = {"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "u", "controller": True}
    owned = {"name": "owned", "labels": QUEUED, "ownerReferences": [owner]}
    made = sent_when_served(server, kind, {"metadata": owned, "spec": {}})
    assert at(made["spec"], framework.suspend) is None, "whoever made it is queued"


@pytest.mark.parametrize("kind", SUSPENDED, ids=lambda kind: kind.name)
def test_the_words_of_a_frameworks_job_are_checked_and_stay_while_it_runs(server: ServerProcess, kind: Kind) -> None:
    """Each refusal has Kueue's code. A running job that left its queue would keep its quota."""
    framework = FRAMEWORKS[kind]
    send(server, CRDS, definition(framework))
    spec = with_pods(kind, {})
    sent_when_served(server, kind, {"metadata": {"name": "words", "labels": QUEUED}, "spec": spec})
    bad = {f"{PREFIX}queue-name": "Bad_Name"}
    assert send(server, kind, {"metadata": {"name": "b", "labels": bad}, "spec": spec}) == 403
    wrong = {**QUEUED, f"{PREFIX}max-exec-time-seconds": "0"}
    assert send(server, kind, {"metadata": {"name": "c", "labels": wrong}, "spec": spec}) == 403
    running = {"spec": nested(framework.suspend, False)}
    for labels in ({"queue-name": None}, {"queue-name": "other"}, {"priority-class": "p"}):
        said = {"metadata": {"labels": {f"{PREFIX}{key}": text for key, text in labels.items()}}}
        assert isinstance(change(server, kind, "words", {**said, **nested(("spec", *framework.suspend), True)}), dict)
        back = {"metadata": {"labels": {**QUEUED, f"{PREFIX}priority-class": None}}}
        assert isinstance(change(server, kind, "words", {**back, **running}), dict)
        assert change(server, kind, "words", said) == 403
        change(server, kind, "words", nested(("spec", *framework.suspend), True))


def test_a_job_that_leaves_its_queue_while_it_runs_is_refused(server: ServerProcess) -> None:
    send(server, JOBS, job("leaves", {"queue-name": "l"}))
    assert isinstance(change(server, JOBS, "leaves", {"spec": {"suspend": False}}), dict)
    assert change(server, JOBS, "leaves", {"metadata": {"labels": {f"{PREFIX}queue-name": None}}}) == 403


def test_gates_of_a_job_can_only_become_fewer(server: ServerProcess) -> None:
    send(server, JOBS, job("gated", {"queue-name": "l"}, {"admission-gated-by": "a,b"}))
    send(server, JOBS, job("free", {"queue-name": "l"}))
    for name, gates, code in (("gated", "a,c", 403), ("gated", "b", 0), ("gated", "a,b", 403), ("free", "a", 403)):
        said = change(server, JOBS, name, {"metadata": {"annotations": {f"{PREFIX}admission-gated-by": gates}}})
        assert (said if isinstance(said, int) else 0) == code, (name, gates)
    gone = {"metadata": {"annotations": {f"{PREFIX}admission-gated-by": None}}}
    assert isinstance(change(server, JOBS, "gated", gone), dict)


@pytest.mark.parametrize("kind", [JOBS, *(k for k in SUSPENDED if k not in SIGNED_BY_THEIR_DIALECT)], ids=str)
def test_a_job_says_who_put_it_into_its_queue(server: ServerProcess, kind: Kind) -> None:
    if kind is not JOBS:
        send(server, CRDS, definition(FRAMEWORKS[kind]))
    user = {"phalanx.dev/user": "somebody"}
    spec = job("", {})["spec"] if kind is JOBS else with_pods(kind, {})
    meta = {"name": "signed", "labels": QUEUED, "annotations": user}
    made = sent_when_served(server, kind, {"metadata": meta, "spec": spec})
    assert made["metadata"]["annotations"]["phalanx.dev/user"] == "admin"
    sent_when_served(server, kind, {"metadata": {"name": "later"}, "spec": {**spec, **nested(suspend_of(kind), True)}})
    later = change(server, kind, "later", {"metadata": {"labels": QUEUED}})
    assert isinstance(later, dict)
    assert later["metadata"]["annotations"]["phalanx.dev/user"] == "admin"


def suspend_of(kind: Kind) -> tuple[str, ...]:
    return ("suspend",) if kind is JOBS else FRAMEWORKS[kind].suspend


def change(server: ServerProcess, kind: Kind, name: str, patch: Object, namespace: str = "default") -> Object | int:
    """The object after a merge patch, or the code of its refusal."""

    async def sent() -> Object | int:
        async with await Connection.open(server.kubeconfig) as api:
            try:
                return await api.patch(kind, name, patch, namespace)
            except ApiRefusal as error:
                return error.code

    return asyncio.run(sent())


QUEUED = {"kueue.x-k8s.io/queue-name": "l"}


def sent_when_served(server: ServerProcess, kind: Kind, obj: Object, namespace: str = "default") -> Object:
    for _ in range(100):
        if isinstance(made := send(server, kind, obj, namespace), dict):
            return made
        time.sleep(0.05)
    raise AssertionError(made)


def test_the_pods_of_a_deployment_and_of_a_stateful_set_name_the_queue(server: ServerProcess) -> None:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    made = send(server, DEPLOYMENTS, {"metadata": {"name": "d", "labels": QUEUED}, "spec": spec})
    assert isinstance(made, dict)
    inner = made["spec"]["template"]
    assert inner["metadata"]["labels"] == {**labels, **QUEUED}
    assert inner["spec"]["schedulerName"] == "phalanx"


def test_a_group_of_a_leader_worker_set_is_one_gang() -> None:
    lws = "leaderworkerset.sigs.k8s.io/"
    labels = {**QUEUED, f"{lws}name": "serve", f"{lws}group-index": "1", f"{lws}worker-index": "2"}
    said = gangs.options_of("Pod", {"namespace": "n", "labels": labels, "annotations": {gangs.GROUP_COUNT: "4"}})
    assert (said["phalanx.dev/job"], said["phalanx.dev/min-available"]) == ("serve-1", "4")
