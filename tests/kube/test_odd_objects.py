"""An odd object never stops the scheduler. The object counts as invalid, which is reported, and the scheduler
continues.

The readers refuse invalid labels and annotations, which the API server does not validate. If a reader raises any other
exception, the exception affects that object alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings

from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER
from phalanx.dialects.job_kinds.replica_types import TRAINING
from phalanx.dialects.job_kinds.spark import SPARK
from phalanx.kube.gang.spec.gang_spec import GangDefaults, gang_spec
from phalanx.kube.gang.spec.members import GangMembers
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read import labels
from phalanx.kube.read.node import read_node
from phalanx.kube.read.pod import read_pod
from phalanx.kube.read.template.pod_shape import ShapeCache
from phalanx.model.event import NodeSeen, PolicySeen, Submitted, Ticked
from phalanx.model.job import Job, Phase
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests.kube.double import Object, job, node, pod
from tests.kube.odd_objects import CHAIN, DEEP, NESTED, job_parts, junk, pod_parts, status_parts, with_words, words
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

DEFAULTS = GangDefaults(largest=lambda: {"cpu": 4000, "pods": 110})

TENSORFLOW = next(each.kind for each in TRAINING if each.kind.name == "TFJob")
HEALTHY = {"first", "second"}

META = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}


def known(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **META}}


def starts_whole_or_says_why(job: Job) -> bool:
    cluster = Cluster()
    fold(cluster, (PolicySeen(Policy()), Ticked(1e9), NodeSeen(read_node(node("n1"))), Submitted(job)))
    fold_plan(cluster, decide(cluster, Policy(), 1e9))
    record = cluster.jobs[job.id]
    if record.phase is Phase.QUEUED:
        return record.reason is not None
    return all(record.placed[role] >= record.gang.minimums[role] for role in record.gang.required_roles)


@given(words, words)
def test_whatever_a_pod_says_is_read_and_decided_on(annotations: dict[str, str], said: dict[str, str]) -> None:
    read = read_pod(with_words(known(pod("p")), annotations, said), ShapeCache())
    spec = gang_spec(GangMembers(id="default/p", jobs=[], pods=[read]), DEFAULTS)
    assert starts_whole_or_says_why(spec.job)


@given(words)
def test_whatever_a_node_says_is_read(annotations: dict[str, str]) -> None:
    read = read_node(with_words({**node("n1"), "metadata": {"name": "n1", "labels": {}}}, annotations, {}))
    assert (read.name, read.allocatable) == ("n1", read_node(node("n1")).allocatable)


def started_beside(*odd: tuple[Kind, Object], dialects: frozenset[str] = frozenset()) -> set[str]:
    """Return the started Jobs of two healthy ones beside those objects. Before the second Job, a new scheduler is
    started."""
    stage = Stage(nodes=[node("n1", 4)], dialects=dialects)
    stage.controller.skips = {"odd"}
    for kind, obj in odd:
        stage.api.put(kind, obj)

    async def scene() -> None:
        for name in sorted(HEALTHY):
            async with stage.scheduler():
                stage.put(job(name, 1))
                await stage.until(lambda name=name: f"{name}-" in " ".join(stage.api.bound()), turns=30)
                await settle(stage, 3)

    play(scene())
    return {name.partition("-")[0] for name in stage.api.bound()} & HEALTHY


def odd_job(parts: Object, spec: Object, annotations: dict[str, str]) -> Object:
    obj = with_words(job("odd", 1), annotations, {})
    template = {"spec": {**obj["spec"]["template"]["spec"], **parts}}
    return {**obj, "spec": {**obj["spec"], **spec, "template": template}}


@pytest.mark.slow
@settings(max_examples=25)
@given(pod_parts, job_parts, words, status_parts)
def test_an_odd_job_ends_nobody(parts: Object, spec: Object, annotations: dict[str, str], status: Object) -> None:
    with quiet():
        assert started_beside((JOBS, {**odd_job(parts, spec, annotations), "status": status})) == HEALTHY


EXPRESSION = {"key": "k", "operator": "In", "values": ["v"]}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [EXPRESSION]}
POD_TERM = {"topologyKey": "zone", "labelSelector": SELECTOR, "namespaces": ["n"]}
NODE_TERM = {"matchExpressions": [EXPRESSION]}
REQUIRED, PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
FULL_POD: Object = {
    "containers": [
        {"name": "c", "resources": {"requests": {"cpu": "99"}}, "ports": [{"containerPort": 1, "hostPort": 2}]}
    ],
    "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
    "nodeSelector": {"a": "b"},
    "schedulerName": "phalanx",
    "schedulingGates": [{"name": "g"}],
    "priority": 1,
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [NODE_TERM]},
            PREFERRED: [{"weight": 1, "preference": NODE_TERM}],
        },
        "podAffinity": {REQUIRED: [POD_TERM], PREFERRED: [{"weight": 1, "podAffinityTerm": POD_TERM}]},
    },
    "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "labelSelector": SELECTOR}],
}
ODD_VALUES = (None, "text", -1, 10**30, 1.5, True, {"a": {"b": 1}}, [None], [{"a": 1}])


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def with_value(value: Any, path: tuple[str | int, ...], odd: object) -> Any:
    """Return a copy of the value with another value at one place."""
    if not path:
        return odd
    copied = value.copy()
    copied[path[0]] = with_value(value[path[0]], path[1:], odd)
    return copied


def odd_everywhere(kind: Kind, spec: Object) -> list[tuple[Kind, Object]]:
    """Return objects of this kind: one for each place of the spec and each odd value at this place."""
    odd = [with_value(spec, path, value) for path in places(spec) for value in ODD_VALUES]
    queued = {"namespace": "default", "labels": {labels.QUEUE: "default"}}
    return [
        (
            kind,
            {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {**queued, "name": f"odd{n}"}, "spec": one},
        )
        for n, one in enumerate(odd)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TENSORFLOW, RAY_CLUSTER.kind, SPARK.kind], ids=lambda kind: kind.name)
def test_an_odd_value_at_any_place_of_a_frameworks_job_ends_nobody(kind: Kind) -> None:
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}, "spec": FULL_POD}
    pods: Object = {"replicas": 1, "template": template}
    policy = {"suspend": True, "activeDeadlineSeconds": 60, "schedulingPolicy": {"minAvailable": 1, "queue": "q"}}
    spec: Object = {
        TENSORFLOW: {"runPolicy": policy, "tfReplicaSpecs": {"Worker": pods}},
        RAY_CLUSTER.kind: {"suspend": True, "headGroupSpec": pods, "workerGroupSpecs": [{"groupName": "w", **pods}]},
        SPARK.kind: {"suspend": True, "driver": {"cores": 99, **pods}, "executor": {"instances": 1, "cores": 99}},
    }[kind]
    with quiet():
        assert started_beside(*odd_everywhere(kind, spec), dialects=frozenset({"kubeflow", "kueue"})) == HEALTHY


@pytest.mark.slow
@settings(max_examples=25)
@given(pod_parts, words, status_parts)
def test_an_odd_pod_ends_nobody(parts: Object, annotations: dict[str, str], status: Object) -> None:
    obj = with_words(pod("odd"), annotations, {})
    with quiet():
        assert started_beside((PODS, {**obj, "spec": {**obj["spec"], **parts}, "status": status})) == HEALTHY


@pytest.mark.slow
@settings(max_examples=15)
@given(junk, junk, junk)
def test_odd_nodes_queues_and_specs_end_nobody(spec: object, status: object, queue: object) -> None:
    odd_node = {"metadata": {"name": "odd"}, "spec": spec, "status": status}
    odd_queue = {"metadata": {"name": "odd"}, "spec": queue}
    with quiet():
        assert started_beside((NODES, odd_node), (QUEUES, odd_queue)) == HEALTHY


@contextmanager
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "annotations",
    [
        {"batch.kubernetes.io/job-completion-index": "²"},
        {"phalanx.dev/parallelism": "1 of " + "9" * 5000},
        {"phalanx.dev/limited": "none of " + "9" * 5000},
        {"phalanx.dev/subgroups": DEEP},
        {"phalanx.dev/subgroups": CHAIN},
        {"phalanx.dev/admitted": NESTED},
        {"phalanx.dev/template": NESTED},
        {"phalanx.dev/min-available": "9" * 5000},
    ],
    ids=lambda annotations: next(iter(annotations)).partition("/")[2],
)
def test_what_was_found(annotations: dict[str, str]) -> None:
    odd = (JOBS, odd_job({}, {}, annotations)), (PODS, with_words(pod("odd"), annotations, {}))
    assert started_beside(*odd) == HEALTHY
