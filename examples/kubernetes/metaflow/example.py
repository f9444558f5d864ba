"""A flow of Metaflow's with Jobs in a LocalQueue, and what it needs: a queue with room for one of them at a time, and a
store for what steps hand on. Metaflow keeps that in S3: here moto, a server that speaks as much of it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# All that a step of Metaflow's asks for has a quota.
AMOUNTS = {"cpu": 1, "memory": "1Gi", "ephemeral-storage": "1Gi"}
QUOTAS = [{"name": name, "nominalQuota": amount} for name, amount in AMOUNTS.items()]
GROUP = {"coveredResources": list(AMOUNTS), "flavors": [{"name": "any", "resources": QUOTAS}]}
KUEUE = ("kueue.x-k8s.io", "v1beta2")
SPACE = "default"
BUCKET = "flows"


def prepare() -> None:
    """What an administrator does once: a queue."""
    from kubernetes import client, config

    config.load_kube_config()
    objects = client.CustomObjectsApi()

    def body(kind: str, name: str, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": "/".join(KUEUE), "kind": kind, "metadata": {"name": name}, "spec": spec}

    research = body("ClusterQueue", "research", namespaceSelector={}, resourceGroups=[GROUP])
    objects.create_cluster_custom_object(*KUEUE, "resourceflavors", body("ResourceFlavor", "any"))
    objects.create_cluster_custom_object(*KUEUE, "clusterqueues", research)
    team = body("LocalQueue", "team", clusterQueue="research")
    objects.create_namespaced_custom_object(*KUEUE, SPACE, "localqueues", team)


def finished() -> list[str]:
    from kubernetes import client

    found = client.CustomObjectsApi().list_namespaced_custom_object(*KUEUE, SPACE, "workloads")["items"]
    said = [condition for one in found for condition in one["status"]["conditions"]]
    return sorted(one["reason"] for one in said if one["type"] == "Finished")


@contextmanager
def store() -> Iterator[dict[str, str]]:
    """Inside, a store is there; what clients need to find it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    around = {
        "AWS_ACCESS_KEY_ID": "example",
        "AWS_SECRET_ACCESS_KEY": "example",
        "AWS_DEFAULT_REGION": "us-east-1",
        "METAFLOW_S3_ENDPOINT_URL": url,
        "METAFLOW_DATASTORE_SYSROOT_S3": f"s3://{BUCKET}",
        "METAFLOW_DEFAULT_DATASTORE": "s3",
        "METAFLOW_DEFAULT_METADATA": "local",
        "METAFLOW_USER": "example",
        "METAFLOW_KUBERNETES_NAMESPACE": SPACE,
        # Pods of `image: host` share the files of this machine: each works in a folder of its own.
        "METAFLOW_KUBERNETES_SANDBOX_INIT_SCRIPT": 'cd "$(mktemp --directory --tmpdir="$ROOM")"',
    }
    try:
        os.environ |= around
        begin(port, url)
        yield around
    finally:
        server.terminate()
        server.wait()


def begin(port: int, url: str) -> None:
    """Wait until the store listens, and make the bucket."""
    import boto3

    for _ in range(600):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    boto3.client("s3", endpoint_url=url).create_bucket(Bucket=BUCKET)


def main() -> None:
    prepare()
    with store() as around:
        words = [sys.executable, str(Path(__file__).with_name("flow.py")), "run"]
        done = subprocess.run(words, env={**os.environ, **around}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the parts come to 499500" in done.stdout, done.stdout
    assert finished() == ["Succeeded", "Succeeded"], finished()
    print("a flow ended well: two Jobs were admitted by a LocalQueue, and their results joined")


if __name__ == "__main__":
    main()
