"""The manifests of one application: a driver, and the executors that the driver creates once it runs.

As with Spark, only the driver knows its executors in advance. So annotations on the driver pod state the number of pods
(`phalanx.dev/min-available`) and their total requests (`phalanx.dev/min-resources`). A queue that starts gangs reserves
the amounts of all executors and starts the driver only when all pods fit. A queue with `gang: false` ignores them. The
manifests are the same for both queues.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from phalanx.client.connection import Object

EXECUTORS = 2
CPU, MEMORY_MI = 1, 64  # the requests of each pod
APPLICATION_LABEL = "phalanx.dev/job"
TRIAL_LABEL = "demo.phalanx.dev/trial"
ROLE_LABEL = "phalanx.dev/role"
ACCESS_SECRET = "demo-api-access"  # noqa: S105  the Secret's name


def queue(name: str, *, gang: bool) -> Object:
    """Return a queue's manifest. The two queues of the demo differ only in `gang`."""
    return {
        "apiVersion": "phalanx.dev/v1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"gang": gang},
    }


def access_secret(namespace: str, server: str, token: str, ca: str) -> Object:
    """Return the Secret with the API's address and credentials for the environment of the drivers."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": ACCESS_SECRET, "namespace": namespace},
        "stringData": {"server": server, "token": token, "ca": ca},
    }


def driver(name: str, namespace: str, queue_name: str, trial: str) -> Object:
    pods = EXECUTORS + 1
    pod = _pod(f"{name}-driver", namespace, "phalanx.demo.driver", _labels(name, "driver", queue_name, trial))
    pod["metadata"]["annotations"] = {
        "phalanx.dev/min-available": str(pods),
        "phalanx.dev/min-resources": f"cpu={pods * CPU},memory={pods * MEMORY_MI}Mi",
    }
    pod["spec"]["containers"][0]["env"] = [
        {"name": "APPLICATION", "value": name},
        *(_secret_key(variable, key) for variable, key in _ACCESS.items()),
        *(_field(variable, path) for variable, path in _IDENTITY.items()),
    ]
    return pod


def executor(driver_pod: Object, number: int, address: str, token: str) -> Object:
    """Return the pod of executor `number` for a driver. It is deleted together with the driver's pod. `address`,
    `token`: for its connection to the driver."""
    meta = driver_pod["metadata"]
    labels = {**meta["labels"], ROLE_LABEL: "executor"}
    name = f"{meta['name'].removesuffix('-driver')}-executor-{number}"
    pod = _pod(name, meta["namespace"], "phalanx.demo.executor", labels)
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    ]
    pod["spec"]["containers"][0]["env"] = [
        {"name": "DRIVER_ADDRESS", "value": address},
        {"name": "DRIVER_TOKEN", "value": token},
        _field("POD_NAME", "metadata.name"),
    ]
    return pod


_ACCESS = {"API_SERVER": "server", "API_TOKEN": "token", "API_CA": "ca"}
_IDENTITY = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP"}


def _labels(application: str, role: str, queue_name: str, trial: str) -> dict[str, str]:
    return {
        APPLICATION_LABEL: application,
        ROLE_LABEL: role,
        TRIAL_LABEL: trial,
        "phalanx.dev/queue": queue_name,
    }


def _pod(name: str, namespace: str, module: str, labels: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "schedulerName": "phalanx",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": "host",
                    "command": [sys.executable, "-m", module],
                    "resources": {"requests": {"cpu": str(CPU), "memory": f"{MEMORY_MI}Mi"}},
                }
            ],
        },
    }


def _secret_key(variable: str, key: str) -> Object:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": ACCESS_SECRET, "key": key}}}


def _field(variable: str, path: str) -> Object:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}
