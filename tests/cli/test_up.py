"""`phalanx up`, for real: kubectl, `phalanx run`, crashes of its parts, Ctrl-C, and starting again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.upstart import PHALANX, Up, is_alive, started, until
from tests.kubectl import KUBECTL
from tests.metrics.exposition import scrape, value

pytestmark = pytest.mark.slow
RARE = "rare=0,max=2,delay=1s,idle=1s,cpu=1,label:pool=rare"  # only for jobs that select it


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    machines = ("--local-cpu", "4", "--simulate-nodes", "2", "--node-gpu", "8", "--node-group", RARE)
    with started(tmp_path_factory.mktemp("up"), *machines, "--metrics-address", "127.0.0.1:0") as up:
        yield up
        up.stop()


def test_kubectl_sees_the_nodes_and_the_queue(up: Up) -> None:
    nodes = json.loads(up.kubectl("get", "nodes", "-o", "json"))["items"]
    assert len(nodes) == 3
    assert "default" in up.kubectl("get", "queues")


def test_pods_of_the_default_scheduler_run_one_by_one(up: Up) -> None:
    up.kubectl("run", "plain", "--image=host", "--restart=Never", "--", "echo", "hi")
    up.kubectl("run", "elsewhere", "--image=acme/unknown:1", "--restart=Never")
    up.kubectl("wait", "pod/plain", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=200s")
    reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}"
    until(lambda: up.kubectl("get", "pod", "elsewhere", "-o", reason) in ("ErrImagePull", "ImagePullBackOff"))
    assert "phalanx image import acme/unknown:1" in up.kubectl("get", "pod", "elsewhere", "-o", "yaml")
    up.kubectl("delete", "pod", "plain", "elsewhere")


def test_a_deployment_is_rolled_out_and_back(up: Up) -> None:
    up.kubectl("create", "deployment", "web", "--image=host", "--replicas=2", "--", "sleep", "600")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=200s")
    up.kubectl("set", "env", "deployment/web", "COLOUR=red")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=200s")
    up.kubectl("rollout", "undo", "deployment/web")
    up.kubectl("scale", "deployment/web", "--replicas=1")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=200s")
    found = json.loads(up.kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    [pod] = [one for one in found if "deletionTimestamp" not in one["metadata"]]
    assert "env" not in pod["spec"]["containers"][0]
    up.kubectl("delete", "deployment", "web")


CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  template:
    spec:
      restartPolicy: Never
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      containers:
      - {name: main, image: host, command: [sh, -c, COMMAND], volumeMounts: [{name: data, mountPath: WHERE}]}
"""


def test_what_one_job_writes_to_a_claim_another_reads(up: Up, tmp_path: Path) -> None:
    where, file = tmp_path / "mounted", tmp_path / "jobs.yaml"
    where.mkdir()
    for name, command in (("writer", f"echo kept > {where}/file"), ("reader", f"cat {where}/file")):
        said = CLAIM.replace("NAME", name).replace("COMMAND", json.dumps(command)).replace("WHERE", str(where))
        file.write_text(said)
        up.kubectl("apply", "-f", str(file))
        up.kubectl("wait", f"job/{name}", "--for=condition=complete", "--timeout=200s")
    assert up.kubectl("logs", "job/reader") == "kept\n"
    assert os.listdir(where) == []  # it is the pod's alone
    [folder] = (up.data / "volumes").iterdir()
    assert (folder / "file").read_text() == "kept\n"
    up.kubectl("delete", "job", "writer", "reader")
    up.kubectl("delete", "pvc", "data", "--timeout=200s")
    until(lambda: not folder.exists())


def test_its_secrets_are_private(up: Up) -> None:
    assert (up.data / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert up.data.stat().st_mode & 0o077 == 0


def test_run_shows_the_output_and_ends_with_the_exit_code(up: Up) -> None:
    said = up.call(*PHALANX, "run", "--", "echo", "hi")
    assert (said.returncode, said.stdout) == (0, "hi\n"), said.stderr
    failed = up.call(*PHALANX, "run", "--", "sh", "-c", "echo out; exit 7")
    assert (failed.returncode, failed.stdout) == (7, "out\n")
    assert "failed: exit code 7" in failed.stderr


def test_a_time_limit_ends_a_job_as_timeout_does(up: Up) -> None:
    late = up.phalanx("run", "--name", "late", "--time-limit", "1s", "--", "sleep", "600")
    assert late.returncode == 124
    assert "job default/late failed: it reached its time limit (1s) and was ended" in late.stderr


def test_its_metrics_count_what_was_started(up: Up) -> None:
    where = next(line.split()[-1] for line in up.said if line.startswith("  metrics "))
    started, bound = ("phalanx_decisions_total", {"action": "start"}), ("phalanx_pods_placed_total", {})

    def counted() -> list[float]:
        found = scrape(where)
        return [value(found, name, queue="default", **labels) for name, labels in (started, bound)]

    before = counted()
    assert up.phalanx("run", "--", "true").returncode == 0
    until(lambda: counted() == [count + 1 for count in before])  # the answer to a binding may come after the pod ended
    assert value(scrape(where), "phalanx_leader") == 1


def test_run_starts_several_pods_together_and_numbers_their_lines(up: Up) -> None:
    said = up.phalanx("run", "--pods", "3", "--", "sh", "-c", "echo pod $JOB_COMPLETION_INDEX")
    assert sorted(said.stdout.splitlines()) == ["[0] pod 0", "[1] pod 1", "[2] pod 2"], said.stderr


def test_a_user_string_arrives_as_it_is(up: Up) -> None:
    said = up.phalanx("run", "--env", "X=$(id) $$", "--", "sh", "-c", 'echo "$X"; echo "$0"', "$(HOME) $$")
    assert said.stdout == "$(id) $$\n$(HOME) $$\n"


def test_an_unknown_queue_is_refused_with_a_guess(up: Up) -> None:
    said = up.phalanx("run", "--queue", "defualt", "--", "true")
    assert said.returncode == 1
    assert "there is no queue 'defualt'" in said.stderr
    assert "Did you mean 'default'?" in said.stderr


def test_a_job_larger_than_any_node_waits_and_says_why(up: Up) -> None:
    said = up.phalanx("submit", "--name", "huge", "--cpu", "1000", "--", "true")
    assert said.returncode == 0
    assert "one of its pods requests 1000 cpu, but the largest node has 100" in said.stderr
    [job] = json.loads(up.phalanx("jobs", "--json").stdout)
    assert (job["job"], job["state"], job["reason"]["code"]) == ("default/huge", "queued", "NeverFits")
    page = up.phalanx("explain", "huge").stdout
    assert "the largest node has 100" in page
    assert "1 of 1 waiting jobs in queue default" in page
    up.kubectl("delete", "job", "huge")


GANG = """
apiVersion: batch/v1
kind: Job
metadata: {name: rare, labels: {phalanx.dev/queue: default}}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata: {annotations: {phalanx.dev/run-seconds: "0"}}
    spec:
      restartPolicy: Never
      nodeSelector: {pool: rare}
      containers: [{name: c, image: host, command: ["true"], resources: {requests: {cpu: "1"}}}]
"""


def test_nodes_of_a_group_come_for_a_gang_and_go_when_they_are_empty(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "gang.yaml"
    file.write_text(GANG)
    up.kubectl("apply", "-f", str(file))
    up.kubectl("wait", "job/rare", "--for=condition=Complete", "--timeout=200s")
    nodes = {pod["spec"]["nodeName"] for pod in json.loads(up.kubectl("get", "pods", "-o", "json"))["items"]}
    assert {"rare-1", "rare-2"} <= nodes
    assert "WaitingForNodes" in up.phalanx("explain", "rare").stdout
    until(lambda: not json.loads(up.kubectl("get", "nodes", "-l", "pool=rare", "-o", "json"))["items"])
    log = (up.data / "control-plane.log").read_text()
    assert log.count("node group rare: requesting rare-1, rare-2 for default/rare") == 1
    up.kubectl("delete", "job", "rare")


def test_a_manifest_that_the_server_refuses_is_shown_at_its_line(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: bad}\nspec:\n  parallelism: -1\n  template:\n    spec:\n"
        "      restartPolicy: Never\n      containers: [{name: main, image: host}]\n"
    )
    said = up.phalanx("submit", str(file))
    assert said.returncode == 1
    assert f"{file}:5: spec.parallelism" in said.stderr


def test_an_unknown_job_is_answered_with_those_there_are(up: Up) -> None:
    said = up.phalanx("explain", "nothing")
    assert said.returncode == 1
    assert "there is no job default/nothing" in said.stderr


def test_nodes_and_queues_say_who_holds_what(up: Up) -> None:
    up.phalanx("submit", "--name", "holder", "--cpu", "2", "--", "sleep", "600")
    until(lambda: json.loads(up.phalanx("jobs", "--json").stdout)[0]["state"] == "running")
    used = {
        name: pods
        for node in json.loads(up.phalanx("nodes", "--json").stdout)
        for name, pods in node["used_by"].items()
    }
    assert used == {"default/holder": 1}
    queues = {one["queue"]: one for one in json.loads(up.phalanx("queues", "--json").stdout)}
    assert {name for name in queues if not name.startswith("kai/")} == {"default"}  # KAI's chart brings queues along
    queue = queues["default"]
    [cpu] = [one for one in queue["usage"] if one["resource"] == "cpu"]
    assert (queue["running"], cpu["used"]) == (1, 2000)
    up.kubectl("delete", "job", "holder", "--wait=false")


def test_watching_tells_each_change_as_a_line(up: Up, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = (*PHALANX, "jobs", "--watch", "--json", "--finished", "--namespace", "watched")
    up.kubectl("create", "namespace", "watched")
    with subprocess.Popen(command, env=up.environment, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        waits = f"until test -e '{seen}'; do sleep 0.1; done"
        up.phalanx("submit", "--namespace", "watched", "--name", "seen", "--", "sh", "-c", waits)
        states = [json.loads(watch.stdout.readline())["state"]]
        seen.touch()
        while "complete" not in states:
            states.append(json.loads(watch.stdout.readline())["state"])
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=120) == 0
    assert states[0] in {"queued", "starting", "running"}


# --- crashes, stops and starts ------------------------------------------------------------------------------------


def child(up: Up, words: str) -> int:
    """The process of `up`'s child with `words` in its command."""
    listing = Path(f"/proc/{up.process.pid}/task/{up.process.pid}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in listing}
    return next(pid for pid, command in commands.items() if words in command)


def said(up: Up, pod: str) -> str:
    return up.call(KUBECTL, "logs", pod).stdout.strip()


def pid_of(up: Up, pod: str) -> int:
    """The process of a pod that wrote its own number as its first line."""
    until(lambda: said(up, pod).isdigit())
    return int(said(up, pod))


def sleeper(up: Up, name: str) -> int:
    """A Job whose pod sleeps; its process."""
    up.phalanx("submit", "--name", name, "--", "sh", "-c", "echo $$; exec sleep 600")
    return pid_of(up, f"job/{name}")


@pytest.mark.long
def test_killed_parts_come_back_and_a_running_pod_does_not_notice(tmp_path: Path) -> None:
    with started(tmp_path / "data") as up:
        process = sleeper(up, "steady")
        for words, name in (("control-plane", "control plane"), ("apiserver", "API server")):
            os.kill(child(up, words), signal.SIGKILL)
            up.read_until(f"the {name} was killed by SIGKILL; starting it again")
            up.read_until(f"the {name} is back")
            assert is_alive(process)
        assert up.phalanx("run", "--", "echo", "still works").stdout == "still works\n"
        assert pid_of(up, "job/steady") == process
        up.kubectl("delete", "job", "steady")
        until(lambda: not is_alive(process))


@pytest.mark.long
def test_ctrl_c_leaves_pods_running_and_the_next_up_finds_them(tmp_path: Path) -> None:
    with started(tmp_path / "data") as up:
        process = sleeper(up, "steady")
        children = [child(up, "control-plane"), child(up, "apiserver")]
        text = up.stop(signal.SIGINT)
    assert up.process.returncode == 0
    assert "1 running pod left running" in text
    assert not any(map(is_alive, children))
    assert is_alive(process)
    with started(tmp_path / "data", "--stop-pods") as again:
        assert pid_of(again, "job/steady") == process
        again.call(KUBECTL, "create", "--filename", training(tmp_path))
        until(lambda: phases(again, "training.kubeflow.org/job-name=t") == ["Running"])
        assert "ended 2 pods" in again.stop(signal.SIGINT)
    assert not is_alive(process)
    with started(tmp_path / "data", "--stop-pods") as third:  # its Job starts it again
        until(lambda: said(third, "job/steady") not in {"", str(process)})  # its old pod may not be gone yet
        until(lambda: phases(third, "training.kubeflow.org/job-name=t") == ["Running"])


def training(folder: Path) -> str:
    """A manifest of a PyTorchJob of one pod that runs on and on."""
    container = {"name": "pytorch", "image": "host", "command": ["sleep", "1000"]}
    template = {"spec": {"schedulerName": "phalanx", "terminationGracePeriodSeconds": 1, "containers": [container]}}
    specs = {"Worker": {"replicas": 1, "template": template}}
    meta = {"name": "t", "labels": {"phalanx.dev/queue": "default"}}
    spec = {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": specs}
    path = folder / "training.json"
    path.write_text(json.dumps({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": meta, "spec": spec}))
    return str(path)


def phases(up: Up, selector: str) -> list[str]:
    return [
        pod["status"]["phase"] for pod in json.loads(up.kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]
    ]


def test_a_killed_supervisor_takes_its_children_along(tmp_path: Path) -> None:
    with started(tmp_path / "data", "--no-local-node") as up:
        children = [child(up, "control-plane"), child(up, "apiserver")]
        up.process.kill()
        up.process.communicate()
        until(lambda: not any(map(is_alive, children)))


def test_a_second_up_on_the_same_directory_is_refused_and_the_first_goes_on(up: Up) -> None:
    second = up.call(*PHALANX, "up", "--data", str(up.data), "--port", "0")
    assert second.returncode == 1
    assert f"{up.data} is in use by another `phalanx up` (process {up.process.pid}" in second.stderr
    assert up.phalanx("jobs").returncode == 0


def test_a_corrupt_database_is_a_clear_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "apiserver.sqlite3").write_bytes(b"this is no database" * 1000)
    failed = subprocess.run(
        (*PHALANX, "up", "--data", str(data), "--port", "0"), capture_output=True, text=True, timeout=120, check=False
    )
    assert failed.returncode == 1
    assert "the API server ended with exit code 1, so nothing runs" in failed.stderr
    assert "apiserver.sqlite3" in failed.stderr
    assert "Traceback" not in failed.stderr
