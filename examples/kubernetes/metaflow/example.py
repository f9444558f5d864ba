"""A flow of Metaflow's with Jobs and a JobSet in a LocalQueue, and what it needs: a queue with room for one Job at a
time, and a store for what steps hand on. Metaflow keeps that in S3: here moto, a server that speaks as much of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

sys.path.insert(0, str(Path(__file__).parents[1]))
from queues import SPACE, endings, make_queue

BUCKET = "flows"


@contextmanager
def store() -> Iterator[dict[str, str]]:
    """Inside, a store is there; what clients need to find it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    around = {
        "AWS_ACCESS_KEY_ID": "example",
        "AWS_SECRET_ACCESS_KEY": "example",
        "AWS_DEFAULT_REGION": "us-east-1",
        "METAFLOW_S3_ENDPOINT_URL": f"http://{host}:{port}",
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
        boto3.client("s3", endpoint_url=around["METAFLOW_S3_ENDPOINT_URL"]).create_bucket(Bucket=BUCKET)
        yield around
    finally:
        server.stop()


def main() -> None:
    make_queue({"cpu": 1, "memory": "1Gi", "ephemeral-storage": "1Gi"})  # all that a step of Metaflow's asks for
    with store() as around:
        words = [sys.executable, str(Path(__file__).with_name("flow.py")), "run"]
        done = subprocess.run(words, env={**os.environ, **around}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the parts come to 499500, the shares to 499500" in done.stdout, done.stdout
    assert endings() == [("Job", "Succeeded"), ("Job", "Succeeded"), ("JobSet", "Succeeded")], endings()
    print("a flow ended well: two Jobs and a JobSet of 2 nodes were admitted by a LocalQueue, and their results joined")


if __name__ == "__main__":
    main()
