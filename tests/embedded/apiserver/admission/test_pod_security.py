"""Pod Security admission refuses and warns by the labels of the namespace."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.admission import pod_security
from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, Cluster, Object, create, job, pod, resource

SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def cluster(**levels: str) -> Cluster:
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode, level in levels.items()}
    return Cluster(namespaces=[{"metadata": {"name": "ns", "labels": labels}}])


def reviewed(plural: str, body: Object, where: Cluster) -> list[str]:
    return pod_security.review(resource(plural), create(plural, body), None, where)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, ""),
        ({"hostNetwork": True, "hostPID": True}, "host namespaces (hostNetwork=true, hostPID=true)"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, 'hostPath volumes (volume "v")'),
        (
            {"containers": [{**CONTAINER, "securityContext": {"privileged": True}}]},
            'privileged (container "c" must not set securityContext.privileged=true)',
        ),
        (
            {"containers": [{**CONTAINER, "securityContext": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}}]},
            'non-default capabilities (container "c" must not include "SYS_ADMIN" in securityContext.capabilities.add)',
        ),
        (
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 80}]}]},
            'hostPort (container "c" uses hostPort 80)',
        ),
    ],
)
def test_baseline_keeps_pods_off_the_host(spec: Any, why: str) -> None:
    assert ", ".join(pod_security.violations(create("pods", pod(**spec))["spec"], "baseline")) == why


def test_restricted_wants_a_pod_to_give_everything_up() -> None:
    assert pod_security.violations(pod()["spec"], "restricted") == [
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)',
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"])',
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" '
        'or "Localhost")',
    ]
    assert pod_security.violations(pod(containers=[{**CONTAINER, "securityContext": SAFE}])["spec"], "restricted") == []


def test_enforcing_refuses_pods() -> None:
    with pytest.raises(StatusError) as caught:
        reviewed("pods", pod(hostNetwork=True), cluster(enforce="baseline"))
    assert caught.value.code == 403
    assert caught.value.message == (
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    )


def test_enforcing_lets_jobs_be_and_warning_speaks_of_them() -> None:
    body = job(template={"spec": {"restartPolicy": "Never", "hostPID": True, "containers": [CONTAINER]}})
    assert reviewed("jobs", body, cluster(enforce="baseline")) == []
    assert reviewed("jobs", body, cluster(warn="baseline")) == [
        'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    ]
