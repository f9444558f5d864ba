"""A new pod: its defaults, and what it is refused for (messages recorded from kube-apiserver 1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, create, pod, refusal, resource

NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def test_a_minimal_pod_gets_every_default() -> None:
    obj = create("pods", pod())
    assert obj["spec"]["containers"] == [
        {
            "name": "c",
            "image": "i",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
    ]
    expected = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert {key: obj["spec"][key] for key in expected} == expected
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert obj["metadata"]["generation"] == 1


def test_defaults_are_idempotent() -> None:
    probe = {"httpGet": {"port": 80}}
    volumes = [{"name": "a"}, {"name": "b", "configMap": {"name": "x"}}, {"name": "h", "hostPath": {"path": "/"}}]
    once = create("pods", pod(containers=[{**CONTAINER, "livenessProbe": probe}], volumes=volumes))
    again = {**once, "spec": dict(once["spec"])}
    resource("pods").strategy.default(again)
    assert again == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("x:1", "IfNotPresent"),
        ("reg.io:5000/x", "Always"),
        ("reg.io:5000/x:1", "IfNotPresent"),
        ("x@sha256:" + "a" * 64, "IfNotPresent"),
        ("localhost/x", "Always"),
        ("Bad", "IfNotPresent"),
        ("x-", "IfNotPresent"),
        ("x" * 300, "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    obj = create("pods", pod(containers=[{"name": "c", "image": image}]))
    assert obj["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_requests_default_from_limits() -> None:
    resources = {"limits": {"cpu": "0.5", "example.com/gpu": "2"}, "requests": {"cpu": "0.1"}}
    obj = create("pods", pod(containers=[{**CONTAINER, "resources": resources}]))
    assert obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "example.com/gpu": "2"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_the_qos_class_follows_the_resources(resources: Any, expected: str) -> None:
    obj = create("pods", pod(containers=[{**CONTAINER, "resources": resources}]))
    assert obj["status"]["qosClass"] == expected


def test_a_gated_pod_says_that_it_is_not_scheduled() -> None:
    obj = create("pods", pod(schedulingGates=[{"name": "example.com/wait"}]))
    assert [(one["type"], one["status"], one["reason"]) for one in obj["status"]["conditions"]] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"containers": []}, ["spec.containers: Required value"]),
        (
            {"containers": [{}]},
            ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        ({"containers": [CONTAINER, CONTAINER]}, ['spec.containers[1].name: Duplicate value: "c"']),
        (
            {"restartPolicy": "Sometimes"},
            ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
        ),
        (
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 70000}, {"containerPort": 1, "protocol": "X"}]}]},
            [
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: "
                "must be between 1 and 65535, inclusive",
                'spec.containers[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
            ],
        ),
        (
            {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/a"}]}]},
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
        ),
        (
            {"volumes": [{"name": "w"}, {"name": "w", "emptyDir": {}}]},
            ['spec.volumes[1].name: Duplicate value: "w"'],
        ),
        (
            {"volumes": [{"name": "w", "emptyDir": {}, "secret": {"secretName": "s"}}]},
            ["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
        ),
        ({"nodeSelector": {"a b": "c"}}, [f'spec.nodeSelector: Invalid value: "a b": {NAME_PART}']),
        (
            {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
            ["spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'"],
        ),
        (
            {"activeDeadlineSeconds": 0},
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
            ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
        ),
        (
            {"containers": [{**CONTAINER, "livenessProbe": {}}]},
            ["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
        ),
    ],
)
def test_wrong_pods_are_refused(spec: Any, lines: list[str]) -> None:
    assert refusal("pods", pod(**spec)) == lines


@pytest.mark.parametrize(
    ("resources", "lines"),
    [
        (
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            {"requests": {"nvidia.com/gpu": "1"}},
            ["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            {"limits": {"nvidia.com/gpu": "500m"}},
            [
                'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
                'spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
            ],
        ),
        (
            {"requests": {"cpu": "-1"}},
            ['spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            {"requests": {"cores": "1"}},
            [
                'spec.containers[0].resources.requests[cores]: Invalid value: "cores": '
                "must be a standard resource type or fully qualified",
                'spec.containers[0].resources.requests[cores]: Invalid value: "cores": '
                "must be a standard resource for containers",
            ],
        ),
    ],
)
def test_wrong_resources_are_refused(resources: Any, lines: list[str]) -> None:
    assert refusal("pods", pod(containers=[{**CONTAINER, "resources": resources}])) == lines


def test_causes_come_in_the_order_of_the_real_server() -> None:
    body = pod(dnsPolicy="Odd", restartPolicy="Odd", tolerations=[{"effect": "Odd", "operator": "Exists"}])
    fields = [line.split(":")[0] for line in refusal("pods", body)]
    assert fields == ["spec.restartPolicy", "spec.dnsPolicy", "spec.tolerations[0].effect"]


def test_pods_are_selected_by_node_phase_and_scheduler() -> None:
    obj = create("pods", pod(nodeName="n1", schedulerName="phalanx"))
    strategy = resource("pods").strategy
    found = strategy.selectable_fields(obj)
    assert (found["spec.nodeName"], found["status.phase"], found["spec.schedulerName"]) == ("n1", "Pending", "phalanx")
    assert set(found) == set(strategy.selectable_names())


@pytest.mark.parametrize(
    ("spec", "phase", "asked_s", "grace_s"),
    [
        ({}, "Pending", None, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", -1, 1),
        ({"nodeName": "n"}, "Succeeded", 30, 0),
    ],
)
def test_only_a_bound_and_running_pod_has_time_to_go(spec: Any, phase: str, asked_s: int | None, grace_s: int) -> None:
    obj = create("pods", pod(**spec))
    obj["status"]["phase"] = phase
    assert resource("pods").strategy.deletion_grace_s(obj, asked_s) == grace_s


def test_a_name_that_is_no_host_name_is_warned_of() -> None:
    obj = create("pods", {**pod(), "metadata": {"name": "a.b"}})
    warnings = resource("pods").strategy.warnings(obj, None)
    assert warnings[0].startswith("metadata.name: this is used in the Pod's hostname")


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
        ),
        (
            {"containers": [{**CONTAINER, "env": [{"name": "A"}, {"name": "A"}]}]},
            'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
        ),
        (
            {"containers": [{**CONTAINER, "resources": {"requests": {"memory": "500m"}}}]},
            'spec.containers[0].resources.requests[memory]: fractional byte value "500m" is invalid, '
            "must be an integer",
        ),
        (
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 80}, {"containerPort": 80, "name": "b"}]}]},
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ),
        (
            {
                "containers": [
                    {**CONTAINER, "ports": [{"containerPort": 80}]},
                    {**CONTAINER, "name": "d", "ports": [{"containerPort": 80, "hostPort": 80}]},
                ]
            },
            "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]",
        ),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
            'spec.imagePullSecrets[1].name: duplicate name "a"',
        ),
        (
            {"hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]},
            'spec.hostAliases[1].ip: duplicate ip "10.0.0.1"',
        ),
        (
            {"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]},
            "spec.volumes[0].gitRepo: deprecated in v1.11",
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
                }
            },
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: "
            "a null labelSelector results in matching no pod",
        ),
    ],
)
def test_probable_mistakes_are_warned_of(spec: Any, warning: str) -> None:
    assert resource("pods").strategy.warnings(create("pods", pod(**spec)), None) == [warning]


SYSCTL = (
    "must have at most 253 characters and match regex "
    r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)


@pytest.mark.parametrize(
    ("names", "more", "lines"),
    [
        (["net.core.somaxconn", "net/ipv4/tcp_syncookies"], {}, []),
        (["x y"], {}, [f'[0].name: Invalid value: "x y": {SYSCTL}']),
        ([""], {}, ["[0].name: Required value"]),
        (["a.b", "a.b"], {}, ['[1].name: Duplicate value: "a.b"']),
        (["net.a"], {"hostNetwork": True}, ['[0].name: Invalid value: "net.a": may not be specified when '
                                            "'hostNetwork' is true"]),
        (["kernel.shmmax"], {"hostIPC": True}, ['[0].name: Invalid value: "kernel.shmmax": may not be specified when '
                                                "'hostIPC' is true"]),
    ],
)  # fmt: skip
def test_settings_of_the_kernel(names: list[str], more: dict[str, Any], lines: list[str]) -> None:
    context = {"sysctls": [{"name": name, "value": "1"} for name in names]}
    found = refusal("pods", pod(securityContext=context, **more))
    assert found == [f"spec.securityContext.sysctls{line}" for line in lines]


@pytest.mark.parametrize(
    ("profile", "lines"),
    [
        ({"type": "RuntimeDefault"}, []),
        ({"type": "Localhost", "localhostProfile": "mine"}, []),
        ({"type": ""}, [".type: Required value: type is required when appArmorProfile is set"]),
        (
            {"type": "X"},
            ['.type: Unsupported value: "X": supported values: "Localhost", "RuntimeDefault", "Unconfined"'],
        ),
        ({"type": "Localhost"}, [".localhostProfile: Required value: must be set when AppArmor type is Localhost"]),
        (
            {"type": "Localhost", "localhostProfile": " x"},
            ['.localhostProfile: Invalid value: " x": must not be padded with whitespace'],
        ),
        (
            {"type": "Unconfined", "localhostProfile": "x"},
            ['.localhostProfile: Invalid value: "x": can only be set when AppArmor type is Localhost'],
        ),
    ],
)
def test_profiles_of_apparmor(profile: dict[str, Any], lines: list[str]) -> None:
    found = refusal("pods", pod(containers=[{**CONTAINER, "securityContext": {"appArmorProfile": profile}}]))
    assert found == [f"spec.containers[0].securityContext.appArmorProfile{line}" for line in lines]
    found = refusal("pods", pod(securityContext={"appArmorProfile": profile}))
    assert found == [f"spec.securityContext.appArmorProfile{line}" for line in lines]


def test_processes_are_shared_with_the_pod_or_with_the_machine() -> None:
    assert refusal("pods", pod(shareProcessNamespace=True, hostPID=True)) == [
        "spec.securityContext.shareProcessNamespace: Invalid value: true: "
        "ShareProcessNamespace and HostPID cannot both be enabled"
    ]
