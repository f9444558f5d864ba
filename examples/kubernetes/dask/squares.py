"""As a user of Dask writes it: a KubeCluster computes, and grows by a worker; its operator runs beside it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import dask_kubernetes.operator
import kr8s
import yaml
from dask.distributed import Client
from dask_kubernetes.operator import KubeCluster, make_cluster_spec
from kr8s.objects import CustomResourceDefinition

NAME, SPACE = "example", "default"
CHART = Path(dask_kubernetes.operator.__file__).parent / "deployment" / "helm" / "dask-kubernetes-operator"


@contextmanager
def operator() -> Iterator[None]:
    """What the administrator installs: the chart's definitions, and the operator, here as a process of this machine."""
    for file in sorted((CHART / "crds").glob("*.yaml")):
        definition = CustomResourceDefinition(yaml.safe_load(file.read_text()))
        definition.create()
        while not any(one.type == "Established" for one in definition.status.get("conditions") or ()):
            sleep(0.2)
            definition.refresh()
    words = ["-m", "kopf", "run", "--quiet", "--all-namespaces", "-m", "dask_kubernetes.operator.controller"]
    process = subprocess.Popen([sys.executable, *words])
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def cluster_spec(workers: int) -> dict[str, Any]:
    """Dask's own template. Its pods are processes of this machine (`image: host`) that share its ports, so each listens
    at its own address; and the commands dask-scheduler and dask-worker are gone from Dask."""
    path = {"name": "PATH", "value": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env = [path, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    small = {"requests": {"cpu": "200m", "memory": "256Mi"}}
    spec: dict[str, Any] = make_cluster_spec(NAME, image="host", n_workers=workers, resources=small, env=env)
    for role, port in (("scheduler", 8787), ("worker", 8788)):
        container = spec["spec"][role]["spec"]["containers"][0]
        listens = ["--host", "$(IP)", "--dashboard-address", f"$(IP):{port}"]
        container["args"] = ["dask", role, *listens]
        if role == "worker":
            container["args"] += ["--name", "$(DASK_WORKER_NAME)"]
    return spec


def workers() -> set[str]:
    labels = {"dask.org/cluster-name": NAME, "dask.org/component": "worker"}
    return {pod.name for pod in kr8s.get("pods", namespace=SPACE, label_selector=labels)}


def main() -> None:
    with ExitStack() as around:
        around.enter_context(operator())
        said = {"custom_cluster_spec": cluster_spec(2), "namespace": SPACE, "resource_timeout": 300}
        cluster = around.enter_context(KubeCluster(**said, quiet=True))
        with Client(cluster) as client:
            client.wait_for_workers(2, timeout=120)
            squares = client.gather(client.map(lambda number: number**2, range(100)))
            assert squares == [number**2 for number in range(100)], squares
            cluster.scale(3)
            client.wait_for_workers(3, timeout=120)
            hosts = set(client.run(lambda: os.uname().nodename).values())
        assert hosts == workers(), (hosts, workers())
    print(f"a KubeCluster of two workers computed squares, and grew to {len(hosts)}; Dask's operator made its pods")


if __name__ == "__main__":
    main()
