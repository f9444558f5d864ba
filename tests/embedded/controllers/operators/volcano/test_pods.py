"""`embedded/controllers/operators/volcano/pods.py`: the pods and the PodGroup of a Job."""

from __future__ import annotations

import json

from phalanx.embedded.controllers.operators.volcano.job_spec import read_job
from phalanx.embedded.controllers.operators.volcano.pods import least_resources, make_group
from tests.embedded.controllers.operators.volcano.test_plugins import DDP, made, variables
from tests.embedded.controllers.operators.volcano.written import job, task


def test_a_pod_says_whose_it_is() -> None:
    owner = job(*DDP, queue="q", priorityClassName="high")
    owner["metadata"] |= {
        "annotations": {"volcano.sh/preemptable": "true"},
        "labels": {"volcano.sh/preemptable": "true"},
    }
    pod = made(owner, "worker", 1)
    assert pod["metadata"]["name"] == "j-worker-1"
    assert pod["metadata"]["annotations"] == {
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/job-name": "j",
        "volcano.sh/queue-name": "q",
        "scheduling.k8s.io/group-name": "j-u",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": "j-worker",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/preemptable": "true",
    }
    assert pod["metadata"]["labels"] == {
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-namespace": "n",
        "volcano.sh/queue-name": "q",
        "volcano.sh/preemptable": "true",
    }
    (owns,) = pod["metadata"]["ownerReferences"]
    assert (owns["apiVersion"], owns["kind"], owns["uid"], owns["controller"]) == (
        "batch.volcano.sh/v1alpha1",
        "Job",
        "u",
        True,
    )
    assert (pod["spec"]["schedulerName"], pod["spec"]["priorityClassName"]) == ("volcano", "high")


def test_pytorch() -> None:
    owner = job(*DDP, plugins={"pytorch": ["--master=master", "--worker=worker", "--port=23456"]})
    assert {key: text for key, text in variables(made(owner, "worker", 1)).items() if not key.startswith("V")} == {
        "MASTER_ADDR": "j-master-0.j",
        "MASTER_PORT": "23456",
        "WORLD_SIZE": "3",
        "RANK": "2",
    }
    assert variables(made(owner, "master", 0))["RANK"] == "0"
    assert made(owner, "worker", 0)["spec"]["containers"][0]["ports"] == [
        {"name": "pytorchjob-port", "containerPort": 23456}
    ]
    owner["spec"]["plugins"]["pytorch"] = ["--wait-master-enabled=true"]
    (waits,) = made(owner, "worker", 0)["spec"]["initContainers"]
    assert (waits["name"], "j-master-0.j 23456" in waits["command"][-1]) == ("wait-for-master", True)


def test_tensorflow() -> None:
    owner = job(task("ps", 1), task("worker", 1), plugins={"tensorflow": ["--port=2223"]})
    assert json.loads(variables(made(owner, "worker", 0))["TF_CONFIG"]) == {
        "cluster": {"ps": ["j-ps-0.j:2223"], "worker": ["j-worker-0.j:2223"]},
        "task": {"type": "worker", "index": 0},
    }
    alone = job(task("worker", 1), plugins={"tensorflow": []})
    assert "TF_CONFIG" not in variables(made(alone, "worker", 0))


def test_mpi_has_its_hosts_and_a_key() -> None:
    owner = job(*DDP, plugins={"mpi": ["--master=master", "--worker=worker", "--port=22"]})
    master = made(owner, "master", 0)
    assert variables(master)["MPI_HOST"] == "j-worker-0.j,j-worker-1.j"
    assert "MPI_HOST" not in variables(made(owner, "worker", 0))
    (volume,) = [one for one in master["spec"]["volumes"] if one["name"] == "j-ssh"]
    assert volume["secret"]["defaultMode"] == 0o600
    assert {"name": "j-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"} in master["spec"]["containers"][0][
        "volumeMounts"
    ]


def test_hcclrank_counts_on_from_the_masters() -> None:
    owner = job(*DDP, plugins={"hcclrank": []})
    assert made(owner, "worker", 1)["metadata"]["annotations"]["hccl/rankIndex"] == "2"


def test_amounts_that_are_none_are_left_to_the_server() -> None:
    containers = [{"resources": {"requests": {"cpu": [], "memory": 1}}}]
    template = {"spec": {"overhead": {"cpu": "x"}, "containers": containers}}
    assert least_resources(read_job(job(task("a", 2) | {"template": template})), {}) == {"memory": "2"}


def test_its_group_holds_room_for_what_starts_together() -> None:
    tasks = [task("a", 2, minAvailable=1), task("b", 3)]
    for one, cpu, name in zip(tasks, ("1", "500m"), ("low", "high"), strict=True):
        spec = one["template"]["spec"]
        spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        spec["priorityClassName"] = name
    owner = job(*tasks, minAvailable=2, networkTopology={"mode": "soft"})
    group = make_group(owner, read_job(owner), {"high": 9, "low": 1})
    assert group["metadata"]["name"] == "j-u"
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"a": 1, "b": 3},
        "queue": "default",
        "minResources": {"cpu": "1"},
        "networkTopology": {"mode": "soft"},
    }
    owner["spec"]["minAvailable"] = 5
    assert make_group(owner, read_job(owner), {})["spec"]["minResources"] == {"cpu": "3500m"}
