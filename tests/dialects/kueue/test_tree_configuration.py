"""Settings about jobs in Kueue's Configuration, and settings without an effect."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from phalanx.client.kind import NAMESPACES
from phalanx.dialects.frame.dialect import Claim, Object, Said
from phalanx.dialects.kueue import gangs
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.kueue.tree.configuration import (
    CONFIGURATIONS,
    DEFAULTS,
    KueueConfigurationError,
    configuration,
    read_configuration,
)
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions, define
from phalanx.model.pod import amounts
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named, objects

INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"


def config_map(text: str) -> Object:
    data = {"controller_manager_config.yaml": text}
    return named("kueue-manager-config", "kueue-system", data=data)


def read(text: str) -> KueueDefinitions:
    """With a ClusterQueue that has a quota of cpu alone, and the namespaces `default` and `kube-system`."""
    queues = [cluster_queue("a", group(f={"cpu": 1}))]
    found = objects(cluster_queues=queues, local_queues=[local_queue("l", "a")])
    spaces: dict[str, Object] = {}
    for name in ("default", "kube-system"):
        spaces[name] = named(name)
        spaces[name]["metadata"]["labels"] = {"kubernetes.io/metadata.name": name, "team": name}
    maps = {"kueue-system/kueue-manager-config": config_map(text)}
    return define({**found, NAMESPACES: spaces, CONFIGURATIONS: maps})


def claimed(found: KueueDefinitions, namespace: str = "default", *asks: str) -> Claim:
    queue = f"localqueue/{namespace}/l"
    said = Said(
        gang=f"{namespace}/j",
        namespace=namespace,
        queue=queue,
        options={},
        requests=frozenset({amounts(dict.fromkeys(asks, 1))}),
    )
    claim = KUEUE.claim(found, said, {})
    assert claim is not None
    return claim


def test_a_resource_without_quota_needs_none_where_the_configuration_says_so() -> None:
    asks = ("cpu", "example.com/licence")
    blocked = claimed(read("resources: {quotaCheckStrategy: BlockUndeclared}"), "default", *asks).blocked
    assert blocked is not None
    assert blocked.text == "ClusterQueue a has no quota for example.com/licence"
    for text in ("{quotaCheckStrategy: IgnoreUndeclared}", "{excludeResourcePrefixes: [example.com/]}"):
        assert claimed(read(f"resources: {text}"), "default", *asks).blocked is None


MIG_1, MIG_2 = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"
MIG = f"{{input: {MIG_1}, strategy: Replace, outputs: {{mem: 5Gi}}}}, {{input: {MIG_2}, outputs: {{mem: 10Gi}}}}"
VGPU = "{input: cores, strategy: Replace, multiplyBy: gpus, outputs: {all: 1}}"
COUNTED: list[tuple[str, dict[str, int], dict[str, int]]] = [
    ("{}", {"cpu": 1500, "pods": 1}, {"cpu": 1500, "pods": 1}),
    (f"{{transformations: [{MIG}]}}", {MIG_1: 2, MIG_2: 1, "cpu": 1000}, {MIG_2: 1, "cpu": 1000, "mem": 20 << 30}),
    ("{transformations: [{input: cpu, outputs: {credits: 1}}]}", {"cpu": 1001}, {"cpu": 1001, "credits": 2}),
    ("{transformations: [{input: gpu, outputs: {cpu: 250m}}]}", {"cpu": 1, "gpu": 3}, {"cpu": 751, "gpu": 3}),
    ("{transformations: [{input: gpu, strategy: Replace}]}", {"cpu": 1, "gpu": 3}, {"cpu": 1}),
    ("{transformations: [{input: gpu, outputs: {x: 5, cpu: -1}}]}", {"cpu": 1, "gpu": 1}, {"cpu": 1, "gpu": 1, "x": 5}),
    (f"{{transformations: [{VGPU}]}}", {"cores": 20, "gpus": 2}, {"all": 40, "gpus": 2}),
    (f"{{transformations: [{VGPU}]}}", {"cores": 20}, {"all": 20}),
    (f"{{excludeResourcePrefixes: [gpu], transformations: [{VGPU}]}}", {"cores": 20, "gpus": 2}, {"all": 40}),
    (f"{{excludeResourcePrefixes: [c], transformations: [{VGPU}]}}", {"cores": 20, "cpu": 1}, {"all": 20}),
    ("{excludeResourcePrefixes: [example.com/]}", {"example.com/licence": 1, "pods": 1}, {"pods": 1}),
    ("{quotaCheckStrategy: IgnoreUndeclared}", {"cpu": 1, "gpu": 1}, {"cpu": 1}),
]


@pytest.mark.parametrize(("text", "asked", "counted"), COUNTED)
def test_what_a_pod_counts_against_quota(text: str, asked: dict[str, int], counted: dict[str, int]) -> None:
    """`mem` is in bytes, `cpu` in millicores; of `IgnoreUndeclared` the ClusterQueue has a quota of cpu alone."""
    claim = claimed(read(f"resources: {text}"))
    charging: Any = claim.charging or (lambda requests: requests)
    assert charging(amounts(asked)) == amounts(counted)


def test_a_resource_that_is_made_of_another_needs_a_quota_and_the_replaced_one_none() -> None:
    replaced = read("resources: {transformations: [{input: gpu, strategy: Replace, outputs: {cpu: 1}}]}")
    assert claimed(replaced, "default", "cpu", "gpu").blocked is None
    made = read("resources: {transformations: [{input: cpu, outputs: {credits: 1}}]}")
    blocked = claimed(made, "default", "cpu").blocked
    assert blocked is not None
    assert blocked.text == "ClusterQueue a has no quota for credits"


MANAGED: list[tuple[str, str, bool]] = [
    ("{}", "default", True),
    ("{}", "kube-system", False),
    ("managedJobsNamespaceSelector: {}", "kube-system", True),
    ("managedJobsNamespaceSelector: {matchLabels: {team: other}}", "default", False),
    ("managedJobsNamespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}", "default", True),
    ("managedJobsNamespaceSelector: {matchLabels: {team: new}}", "new", True),  # its labels have not come yet
]


@pytest.mark.parametrize(("text", "namespace", "managed"), MANAGED)
def test_jobs_of_namespaces_that_are_not_managed_are_in_no_queue_of_kueues(
    text: str, namespace: str, managed: bool
) -> None:
    claim = claimed(read(text), namespace)
    assert (claim.queue == "", claim.silent) == (not managed, not managed)


FAULTS: list[tuple[str, str]] = [
    ("[", "kueue-system/kueue-manager-config is not YAML: "),
    ("resources: 3", "kueue-system/kueue-manager-config cannot be read: Expected `object | null`, got `int` - at `$."),
    ("managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: Like}]}", "kueue-system/kueue-manager-con"),
    ("waitForPodsReady: {timeout: soon}", "kueue-system/kueue-manager-config cannot be read: waitForPodsReady.timeout"),
    (
        "resources: {transformations: [{input: a}, {input: a}]}",
        "kueue-system/kueue-manager-config cannot be read: resources.transformations: there are 2 transformations of",
    ),
    (
        "resources: {transformations: [{input: a, outputs: {pods: 1}}]}",
        "kueue-system/kueue-manager-config cannot be read: resources.transformations: the output must not be `pods`",
    ),
    (
        "resources: {transformations: [{input: a, outputs: {b: many}}]}",
        "kueue-system/kueue-manager-config cannot be read: resources.transformations[0].outputs.b: 'many' is not a qu",
    ),
    (
        "resources: {transformations: [{input: a, strategy: Drop}]}",
        "kueue-system/kueue-manager-config cannot be read: Invalid enum value 'Drop'",
    ),
]


def test_a_managed_job_waits_until_it_names_a_local_queue() -> None:
    meta: Object = {"namespace": "default", "annotations": {gangs.UNQUEUED: "true"}}
    options = gangs.options_of("Job", meta)
    said = Said(gang="default/j", namespace="default", queue=options["phalanx.dev/queue"], options=options)
    found = KUEUE.claim(read("manageJobsWithoutQueueName: true"), said, {})
    assert found is not None
    assert found.blocked is not None
    assert "set kueue.x-k8s.io/queue-name" in found.blocked.text
    elsewhere = read("manageJobsWithoutQueueName: true\nmanagedJobsNamespaceSelector: {matchLabels: {managed: 'true'}}")
    assert KUEUE.claim(elsewhere, said, {}) == Claim(queue="", silent=True)
    named_later = gangs.options_of("Job", {**meta, "labels": {"kueue.x-k8s.io/queue-name": "l"}})
    assert named_later["phalanx.dev/queue"].endswith("default/l")
    assert gangs.options_of("Job", {"namespace": "default"}) == {}
    assert gangs.options_of("Pod", meta) == {"phalanx.dev/queue": options["phalanx.dev/queue"]}


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_a_configuration_that_cannot_be_read_says_why_and_the_defaults_hold(text: str, fault: str) -> None:
    found = configuration({"kueue-system/kueue-manager-config": config_map(text)})
    assert found.fault.startswith(fault)
    assert (found.fair, found.excluded, found.start_timeout_s) == (False, (), DEFAULTS.start_timeout_s)
    (said,) = KUEUE.notes(CONFIGURATIONS.name, config_map(text))
    assert said == f"{found.fault}; Kueue's defaults are used"


def test_what_of_the_configuration_has_no_effect_is_said_of_its_config_map() -> None:
    text = """
        apiVersion: config.kueue.x-k8s.io/v1beta2
        kind: Configuration
        fairSharing: {preemptionStrategies: [LessThanInitialShare]}
        waitForPodsReady: {timeout: 5m, blockAdmission: true}
        resources: {excludeResourcePrefixes: [a/], transformations: [{input: x, strategy: Replace, odd: 1}]}
        managedJobsNamespaceSelector: {matchLabels: {team: a}}
        leaderElection: {leaderElect: true}
        mystery: 1
    """
    found: Any = [each.partition(": ")[0] for each in KUEUE.notes(CONFIGURATIONS.name, config_map(text))]
    assert found == [
        "waitForPodsReady.blockAdmission has no effect",
        "resources.transformations[].odd is unknown to Phalanx, and has no effect",
        "leaderElection has no effect",
        "mystery is unknown to Phalanx, and has no effect",
    ]
    assert list(KUEUE.notes(CONFIGURATIONS.name, named("other", "kueue-system", data={}))) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("incrementalDispatcherConfig: {stepSize: 2}", "only valid if dispatcherName is"),
        (f"dispatcherName: {INCREMENTAL}, incrementalDispatcherConfig: {{stepSize: 0}}", "stepSize"),
        (f"dispatcherName: {INCREMENTAL}, incrementalDispatcherConfig: {{stepSize: 2}}", ""),
        ("externalFrameworks: [{name: PipelineRun.v1.tekton.dev}]", ""),
    ],
)
def test_settings_of_a_dispatcher_that_is_not_chosen_are_refused_as_in_kueue(text: str, wrong: str) -> None:
    document = {"multiKueue": yaml.safe_load(f"{{{text}}}")}
    if not wrong:
        assert not read_configuration(document).multi.dispatcher, "the scheduler chooses"
        return
    with pytest.raises(KueueConfigurationError, match=wrong):
        read_configuration(document)
