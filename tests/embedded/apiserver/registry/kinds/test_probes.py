"""The probes and hooks of a container: what is refused of them (messages of kube-apiserver 1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, pod, refusal

HERE = "spec.containers[0]"
EXEC = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize(
    ("container", "lines"),
    [
        ({"livenessProbe": EXEC, "readinessProbe": EXEC, "startupProbe": EXEC}, []),
        ({"livenessProbe": {}}, [".livenessProbe: Required value: must specify a handler type"]),
        (
            {"livenessProbe": {**EXEC, "tcpSocket": {"port": 1}}},
            [".livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
        ),
        ({"startupProbe": {"exec": {}}}, [".startupProbe.exec.command: Required value"]),
        (
            {"livenessProbe": {**EXEC, "successThreshold": 2}},
            [".livenessProbe.successThreshold: Invalid value: 2: must be 1"],
        ),
        ({"readinessProbe": {**EXEC, "successThreshold": 2}}, []),
        (
            {"readinessProbe": {**EXEC, "terminationGracePeriodSeconds": 5}},
            [".readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes"],
        ),
        (
            {"livenessProbe": {**EXEC, "periodSeconds": -1}},
            [".livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            {"livenessProbe": {"tcpSocket": {"port": 0}}},
            [".livenessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive"],
        ),
        (
            {"livenessProbe": {"httpGet": {"port": 80, "scheme": "FTP"}}},
            ['.livenessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"'],
        ),
        (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
            [
                ".lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than "
                "terminationGracePeriodSeconds (30)"
            ],
        ),
    ],
    ids=str,
)
def test_wrong_probes_are_refused(container: Any, lines: list[str]) -> None:
    assert refusal("pods", pod(containers=[{**CONTAINER, **container}])) == [HERE + line for line in lines]
