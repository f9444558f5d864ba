"""Errors in the spec of a pod (messages recorded from kube-apiserver 1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import pod, refusal


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        (
            {"restartPolicy": "Sometimes"},
            ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
        ),
        (
            {"activeDeadlineSeconds": 0},
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
            ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
    ],
)
def test_wrong_pods_are_refused(spec: Any, lines: list[str]) -> None:
    assert refusal("pods", pod(**spec)) == lines


def test_causes_come_in_the_order_of_the_real_server() -> None:
    body = pod(dnsPolicy="Odd", restartPolicy="Odd", tolerations=[{"effect": "Odd", "operator": "Exists"}])
    fields = [line.split(":")[0] for line in refusal("pods", body)]
    assert fields == ["spec.restartPolicy", "spec.dnsPolicy", "spec.tolerations[0].effect"]


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


def test_processes_are_shared_with_the_pod_or_with_the_machine() -> None:
    assert refusal("pods", pod(shareProcessNamespace=True, hostPID=True)) == [
        "spec.securityContext.shareProcessNamespace: Invalid value: true: "
        "ShareProcessNamespace and HostPID cannot both be enabled"
    ]
