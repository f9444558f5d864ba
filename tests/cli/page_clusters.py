"""Clusters of a few jobs, as the web page sees them."""

from __future__ import annotations

from typing import Any

from phalanx.cli.cluster.live_state.cluster_snapshot import Snapshot
from phalanx.cli.files.policy_file import settings_from
from phalanx.cli.views.page.cached_snapshot import snapshot_of
from phalanx.cli.views.page.rows import state_of
from phalanx.cli.views.page.sooner import outlook
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.dashboard.rows import Facts, PageState
from phalanx.kube.install.definitions import QUEUES, RESERVATIONS
from phalanx.kube.routing.settings import KubeSettings
from tests.kube.double import Api, Object, job, node, pod

NOW_S = 1_781_618_520.0
GIB = 2**30


def gpu_node(name: str, gpus: int = 8, **labels: str) -> Object:
    made = node(name, 64)
    made["status"]["allocatable"]["nvidia.com/gpu"] = str(gpus)
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
    return made


def gpu_job(name: str, pods: int, gpus: int, **said: str) -> Object:
    made = job(name, pods, **said)
    [container] = made["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"]["nvidia.com/gpu"] = str(gpus)
    return made


def cluster(*objects: tuple[Any, Object]) -> Snapshot:
    api = Api()
    api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
    for kind, obj in objects:
        api.put(kind, obj)
    kinds = {kind: found for kind, found in api.objects.items() if kind in (JOBS, PODS, NODES, QUEUES, RESERVATIONS)}
    return snapshot_of(kinds, KubeSettings(patient=False), settings_from(""), NOW_S)


def seen(snapshot: Snapshot) -> PageState:
    return state_of(snapshot, outlook(snapshot.cluster, snapshot.now_s), Facts())


MIXED = (
    (NODES, gpu_node("gpu-1", rack="a")),
    (NODES, gpu_node("gpu-2", rack="a")),
    (JOBS, gpu_job("fits", 2, 4, time_limit="2h")),
    (JOBS, gpu_job("waits", 2, 8, time_limit="1h")),
    (JOBS, gpu_job("never", 1, 16)),
    (JOBS, gpu_job("held", 1, 1, hold="true")),
    (PODS, pod("notebook", "4", queue="default")),
    (PODS, pod("foreign", "8", scheduler="default-scheduler", node="gpu-1")),
)
