"""What one event of a watched pod costs the scheduler: from the line on the wire to the `Pod` that it plans with.

Decoding, the cache, reading; each pod is told three times (created, bound, running). *lean*: as `phalanx scheduler`
decodes, only what is looked at; *whole*: everything, as where caches are shared with controllers. *small* is a pod of
one container as a Job makes it; *large* has the environment, mounts, probes and managed fields that pods often have.
Microseconds of processor time per event, the least of many short runs. One JSON object on standard output.

    python benchmarks/pod_event.py [--pods N]
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from phalanx.client.connection import Connection
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import PODS
from phalanx.kube.read.pod import Pod, read_changed_pod, read_pod
from phalanx.kube.read.template.pod_shape import ShapeCache
from phalanx.kube.read.wire import WIRE_TYPES

RUNS = 30
TOLERATIONS = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for why in ("not-ready", "unreachable")
]


def pod(number: int, *, large: bool) -> dict[str, Any]:
    """As the API server shows it, with the defaults that it fills in."""
    name = f"train-{number // 10}-{number % 10}"
    job = f"train-{number // 10}"
    container: dict[str, Any] = {
        "name": "main",
        "image": "registry.example/train:1",
        "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    meta: dict[str, Any] = {
        "name": name,
        "generateName": f"{job}-",
        "namespace": "default",
        "uid": f"00000000-0000-4000-8000-{number:012}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"batch.kubernetes.io/job-name": job, "job-name": job, "controller-uid": f"uid-{job}"},
        "annotations": {"batch.kubernetes.io/job-completion-index": str(number % 10)},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
        ],
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
    if large:
        container["env"] = [{"name": f"SETTING_{each}", "value": "x" * 30} for each in range(40)]
        container["volumeMounts"] = [{"name": f"v{each}", "mountPath": f"/mnt/{each}"} for each in range(6)]
        container["livenessProbe"] = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1}
        fields = {f"f:field{each}": {"f:inner": {}, ".": {}} for each in range(40)}
        meta["managedFields"] = [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}]
    spec = {
        "containers": [container],
        "schedulerName": "phalanx",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "tolerations": TOLERATIONS,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def lines(pods: int, *, large: bool) -> Iterator[bytes]:
    """Each pod is created, bound, and runs."""
    made = [pod(number, large=large) for number in range(pods)]
    for step, change in enumerate(({}, {"nodeName": "node-1"}, {})):
        for number, obj in enumerate(made):
            obj["metadata"]["resourceVersion"] = str(1 + step * pods + number)
            obj["spec"] |= change
            obj["status"] = {"phase": "Running" if step == 2 else "Pending"}
            yield msgspec.json.encode({"type": "MODIFIED" if step else "ADDED", "object": obj})


def least_us(told: list[bytes], begin: Callable[[], Callable[[bytes], object]]) -> float:
    """Microseconds of processor time per line; `begin` makes what takes them, anew for each run."""
    best_s = float("inf")
    for _ in range(RUNS):
        take = begin()
        began_s = time.process_time()
        for line in told:
            take(line)
        best_s = min(best_s, time.process_time() - began_s)
    return round(best_s / len(told) * 1e6, 1)


def watching(lean: type | None) -> Callable[[bytes], object]:
    """All of it: a cache and a reader, as the world has them."""
    shapes, pods = ShapeCache(), dict[str, Pod]()
    api = Connection("http://nowhere", headers={}, tls=None)
    cache = Informer(api, PODS, lean=lean)

    def read(change: Change) -> None:
        assert change.new is not None
        known = pods.get(uid := change.new["metadata"]["uid"])
        again = known and change.old and read_changed_pod(known, change.old, change.new)
        pods[uid] = again or read_pod(change.new, shapes)

    cache.subscribe(read)
    return cache.take


def measure(pods: int) -> dict[str, Any]:
    found: dict[str, Any] = {"benchmark": "pod_event", "pods": pods}
    for size in ("small", "large"):
        told = list(lines(pods, large=size == "large"))
        found[f"{size}_bytes"] = round(sum(map(len, told)) / len(told))
        for name, lean in (("lean", WIRE_TYPES[PODS]), ("whole", None)):
            cache = Informer(Connection("http://nowhere", headers={}, tls=None), PODS, lean=lean)
            found[f"{size}_{name}_decode_us"] = least_us(told, lambda cache=cache: cache.decode)  # type: ignore[misc]  # by default
            found[f"{size}_{name}_event_us"] = least_us(told, lambda lean=lean: watching(lean))  # type: ignore[misc]  # by default
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=200)
    gc.set_threshold(50_000, 20, 100)  # as the loop has it
    print(json.dumps(measure(parser.parse_args().pods)))


if __name__ == "__main__":
    main()
