"""A distributed program from a Volcano Job with the plugins env and svc, on `phalanx up`: its processes find each other
by the names and numbers that the plugins give them, and the job ends as the program does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from phalanx.client.connection import Object
from tests.cli.upstart import Up

pytestmark = pytest.mark.slow

# An all-reduce: the master adds what each worker sends, and sends every worker the sum.
PROGRAM = """
import os, socket, time
me, workers = int(os.environ["VC_TASK_INDEX"]), int(os.environ["VC_WORKER_NUM"])
master = open("/etc/volcano/master.host").read().split()[0]
assert master == os.environ["VC_MASTER_HOSTS"], master
assert len(os.environ["VC_WORKER_HOSTS"].split(",")) == workers
if socket.gethostname() == master.split(".")[0]:
    server = socket.create_server(("0.0.0.0", 29411))
    peers = [server.accept()[0] for _ in range(workers)]
    total = sum(int(peer.recv(16)) for peer in peers)
    for peer in peers:
        peer.sendall(str(total).encode())
    print("sum", total)
else:
    for _ in range(300):
        try:
            peer = socket.create_connection((master, 29411))
            break
        except OSError:
            time.sleep(0.1)
    peer.sendall(str(10 + me).encode())
    print("got", peer.recv(16).decode())
"""


def container() -> Object:
    asks = {"requests": {"cpu": "50m"}}
    return {"name": "c", "image": "host", "command": [sys.executable, "-c", PROGRAM], "resources": asks}


def job(name: str, workers: int) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    sizes = {"master": 1, "worker": workers}
    tasks = [{"name": role, "replicas": count, "template": template} for role, count in sizes.items()]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"minAvailable": 1 + workers, "plugins": {"env": [], "svc": []}, "tasks": tasks},
    }


def ended(up: Up, name: str) -> Object:
    wait = ("wait", "--timeout=100s", "--for=jsonpath={.status.state.phase}=Completed")
    up.kubectl(*wait, f"jobs.batch.volcano.sh/{name}")
    found: Object = json.loads(up.kubectl("get", "vcjob", name, "-o", "json"))
    return found


def test_a_distributed_program(local: Up, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job("ddp", 3)))
    local.kubectl("apply", "-f", str(file))
    status = ended(local, "ddp")["status"]
    assert status["succeeded"] == 4
    assert status["taskStatusCount"]["worker"] == {"phase": {"Succeeded": 3}}
    assert local.kubectl("logs", "ddp-master-0").split() == ["sum", "33"]
    assert local.kubectl("logs", "ddp-worker-2").split() == ["got", "33"]
