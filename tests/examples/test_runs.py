"""Every example with a `run` script has the documented result: real frameworks, with their own clients, as gangs.

Required packages (up to a gigabyte) are installed while other tests run (`installing.py`). Without network, Java,
mpirun or disk space such a test is skipped, and names the missing requirement. `make test` runs the small ones, and
`make slow` the others. PHALANX_EXAMPLES=none leaves them out; PHALANX_EXAMPLES=mpi,spark (any of ddp, mpi, ray, spark)
runs those that it names and fails where they cannot run: `make examples` does that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.upstart import Up, started, until
from tests.examples.running import ASKED, EXAMPLES, installing, run

LEARNT = "learnt [3.0, -2.0, 0.5, 1.0], all the same"
# folder and options -> what it says in the end
HEAVY = {
    "mpi": "on mpi-worker-0, mpi-worker-1, mpi-worker-2 agree on pi",
    "mpi --as vcjob": "on mpi-worker-0, mpi-worker-1, mpi-worker-2 agree on pi",
    "ray": "counted 5500 words on ray-worker-0, ray-worker-1",
    "ddp": f"3 ranks on ddp-0, ddp-1, ddp-2 {LEARNT}",
    "ddp --as pytorchjob": f"3 ranks on ddp-master-0, ddp-worker-0, ddp-worker-1 {LEARNT}",
}
# Examples that differ only in the creator of their pods, which other tests cover: `make examples`.
MORE = {
    "ddp --as vcjob": f"3 ranks on ddp-worker-0, ddp-worker-1, ddp-worker-2 {LEARNT}",
}
FOLDERS = {"parameter-server", *(name.split()[0] for name in (*HEAVY, *MORE))}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with started(tmp_path_factory.mktemp("up"), "--local-cpu", "1", "--local-gpu", "0", "--stop-pods") as up:
        yield up


@pytest.mark.slow
def test_servers_and_workers_of_a_parameter_server_train_together(up: Up) -> None:
    said = run("parameter-server", "--kubeconfig", str(up.data / "kubeconfig"), "--timeout", "500")
    assert "right: 3 workers and 2 servers got 9" in said
    until(lambda: not up.kubectl("get", "jobs,pods,services", "--output", "name").split())


ROLL_CALL = """
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    listener = socket.create_server((socket.gethostname(), place[1]))
    print(sorted(listener.accept()[0].recv(9).decode() for _ in range(world - 1)), flush=True)
else:
    while True:
        try:
            socket.create_connection(place).sendall(str(rank).encode())
            break
        except OSError:
            time.sleep(0.1)
"""


def roll_call(workers: int) -> str:
    """A PyTorchJob whose processes are plain Python, and use only the variables that the controller guarantees."""
    container = {"name": "pytorch", "image": "host", "command": [sys.executable, "-c", ROLL_CALL]}
    pod = {"containers": [{**container, "resources": {"requests": {"cpu": "200m"}}}], "schedulerName": "phalanx"}
    specs = {
        name: {"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}}
        for name, count in (("Master", 1), ("Worker", workers))
    }
    forged = {"phalanx.dev/user": "somebody-else"}
    meta = {"name": "roll-call", "labels": {"phalanx.dev/queue": "default"}, "annotations": forged}
    spec = {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": specs}
    return json.dumps({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec})


@pytest.mark.slow
def test_a_pytorch_job_is_queued_and_its_pods_find_each_other(up: Up, tmp_path: Path) -> None:
    """One cpu has room for a Master and four Workers, not for nine."""
    manifest = tmp_path / "job.json"
    manifest.write_text(roll_call(9))
    up.kubectl("create", "--filename", str(manifest))
    until(lambda: "NeverFits" in up.phalanx("explain", "roll-call").stdout)
    assert up.kubectl("get", "pods", "--output", "name") == ""
    user = up.kubectl(
        "get", "pytorchjob", "roll-call", "--output", r"jsonpath={.metadata.annotations.phalanx\.dev/user}"
    )
    assert user not in {"", "somebody-else"}  # the creator is recorded, whatever the user writes
    up.kubectl("delete", "pytorchjob", "roll-call")
    manifest.write_text(roll_call(4))
    up.kubectl("create", "--filename", str(manifest))
    until(lambda: "Succeeded" in up.kubectl("get", "pytorchjob", "roll-call"))
    assert up.kubectl("logs", "roll-call-master-0") == "['1', '2', '3', '4']\n"
    [job] = json.loads(up.phalanx("jobs", "--finished", "--json").stdout)
    assert (job["job"], job["state"], job["pods"]["wanted"]) == ("default/roll-call", "complete", 5)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", installing(HEAVY, small={"mpi"}))
def test_it_runs(name: str, installed: None) -> None:
    assert HEAVY[name] in run(*name.split(), "--timeout", "1000", timeout_s=1150)


@pytest.mark.timeout(1500)
@pytest.mark.skipif(not ASKED, reason="PHALANX_EXAMPLES is not set (make examples)")
@pytest.mark.parametrize("name", installing(MORE))
def test_more_of_them_run(name: str, installed: None) -> None:
    assert MORE[name] in run(*name.split(), "--timeout", "1000", timeout_s=1150)


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.installs("spark")
def test_spark_runs_as_a_gang_and_unchanged_for_volcano(installed: None) -> None:
    """An application of each way, at once, where one has room at a time. All six, pod by pod too: `make examples`."""
    said = run("spark", "--as", "mixed", "--applications", "2", "--cpus", "3", timeout_s=1150)
    assert "2 of 2 finished, 2 with the right counts" in said
    assert "drivers: 2 run" not in said, "each has its three CPUs, or none"


def test_spark_says_what_it_takes() -> None:
    assert "--applications" in run("spark", "--help")
    assert "(spark/" in (EXAMPLES / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_it_says_what_it_takes(name: str) -> None:
    said = run(name, "--help")
    assert "--kubeconfig" in said
    assert f"({name}/" in (EXAMPLES / "README.md").read_text()


def test_no_folder_with_a_run_is_left_out() -> None:
    assert {path.parent.name for path in EXAMPLES.glob("*/run")} - {"spark"} == FOLDERS
