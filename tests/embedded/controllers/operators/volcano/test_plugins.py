"""What plugins make of a Volcano Job's pods: names, variables, files, keys."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.volcano import kinds
from phalanx.embedded.controllers.operators.volcano.job_spec import JobFault, read_job
from phalanx.embedded.controllers.operators.volcano.plugins.flags import read_flags
from phalanx.embedded.controllers.operators.volcano.plugins.keys import key_pair, key_secret
from phalanx.embedded.controllers.operators.volcano.plugins.registry import plugin_objects
from phalanx.embedded.controllers.operators.volcano.plugins.services import host_data
from phalanx.embedded.controllers.operators.volcano.pods import least_resources, make_group, make_pod
from tests.embedded.controllers.operators.volcano.written import job, task


def made(owner: Object, name: str, index: int) -> Object:
    spec = read_job(owner)
    found = spec.task(name)
    assert found is not None
    return make_pod(owner, spec, found, index)


def variables(pod: Object) -> dict[str, Any]:
    found = pod["spec"]["containers"][0].get("env") or []
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in found}


DDP = (task("master", 1), task("worker", 2))


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


def test_env_and_svc() -> None:
    owner = job(task("my-ps", 2), *DDP, plugins={"env": [], "svc": []})
    pod = made(owner, "my-ps", 1)
    said = variables(pod)
    assert (said["VC_TASK_INDEX"], said["VK_TASK_INDEX"]) == ("1", "1")
    assert said["VC_MY_PS_HOSTS"] == {"configMapKeyRef": {"name": "j-svc", "key": "VC_MY_PS_HOSTS"}}
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("j-my-ps-1", "j")
    assert pod["spec"]["containers"][0]["volumeMounts"] == [{"name": "j-svc", "mountPath": "/etc/volcano"}]
    assert host_data(read_job(owner)) == {
        "my_ps.host": "j-my-ps-0.j\nj-my-ps-1.j",
        "VC_MY_PS_HOSTS": "j-my-ps-0.j,j-my-ps-1.j",
        "VC_MY_PS_NUM": "2",
        "master.host": "j-master-0.j",
        "VC_MASTER_HOSTS": "j-master-0.j",
        "VC_MASTER_NUM": "1",
        "worker.host": "j-worker-0.j\nj-worker-1.j",
        "VC_WORKER_HOSTS": "j-worker-0.j,j-worker-1.j",
        "VC_WORKER_NUM": "2",
    }
    names = [(kind.name, body["metadata"]["name"]) for kind, body in plugin_objects(read_job(owner))]
    assert names == [("ConfigMap", "j-svc"), ("Service", "j"), ("NetworkPolicy", "j")]
    owner["spec"]["plugins"]["svc"] = ["--disable-network-policy=true", "--publish-not-ready-addresses"]
    found = dict(plugin_objects(read_job(owner)))
    assert kinds.NETWORK_POLICIES not in found
    assert [body["spec"].get("publishNotReadyAddresses") for kind, body in found.items() if kind.name == "Service"] == [
        True
    ]


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


def test_ssh_keys_open_each_other() -> None:
    private, public = key_pair([])
    assert private.startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert public.startswith("ssh-rsa ")
    assert key_pair(["--ssh-private-key=a", "--ssh-public-key=b"]) == ("a", "b")
    spec = read_job(job(*DDP, plugins={"ssh": []}))
    data = {name: base64.b64decode(text).decode() for name, text in key_secret(spec, [], ("a", "b"))["data"].items()}
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("a", "b", "b")
    assert data["config"].startswith("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nHost j-master-0\n")
    assert "Host j-worker-1\n  HostName j-worker-1.j\n  Port 22\n" in data["config"]


def test_ray_starts_its_own_programs() -> None:
    tasks = [task("head", 1), task("worker", 1)]
    for one in tasks:
        one["template"]["spec"]["containers"][0]["name"] = one["name"]
    owner = job(*tasks, plugins={"ray": []})
    head, worker = made(owner, "head", 0), made(owner, "worker", 0)
    assert head["spec"]["containers"][0]["command"][-1].startswith("ray start --head --block")
    assert worker["spec"]["containers"][0]["command"][-1] == "ray start --block --address=j-head-0.j:6379"
    assert "j-head-svc" in [body["metadata"]["name"] for _, body in plugin_objects(read_job(owner))]
    with pytest.raises(JobFault, match="needs a task 'head'"):
        made(job(task("worker", 1), plugins={"ray": []}), "worker", 0)


def test_hcclrank_counts_on_from_the_masters() -> None:
    owner = job(*DDP, plugins={"hcclrank": []})
    assert made(owner, "worker", 1)["metadata"]["annotations"]["hccl/rankIndex"] == "2"


def test_a_plugin_that_nobody_knows() -> None:
    with pytest.raises(JobFault, match="unable to find job plugin: gpu"):
        made(job(task("a", 1), plugins={"gpu": []}), "a", 0)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("x", r"spec\.tasks\[0\]\.template is not a mapping"),
        ({"spec": 7}, r"template\.spec is not a mapping"),
        ({"spec": {"containers": {"name": "c"}}}, r"containers is not a list"),
        ({"spec": {"containers": [None]}}, r"containers\[0\] is not a mapping"),
        ({"spec": {"containers": [{"resources": {"limits": "all"}}]}}, r"resources\.limits is not a mapping"),
        ({"spec": {"containers": [{"env": 1.5}]}}, r"env is not a list"),
        ({"spec": {"priorityClassName": ["a"]}}, r"priorityClassName is not a text"),
        ({"metadata": {"labels": []}}, r"metadata\.labels is not a mapping"),
    ],
)
def test_a_template_of_another_shape_is_said(template: Any, said: str) -> None:
    with pytest.raises(JobFault, match=said):
        read_job(job(task("a", 1) | {"template": template}))


def test_amounts_that_are_none_are_left_to_the_server() -> None:
    containers = [{"resources": {"requests": {"cpu": [], "memory": 1}}}]
    template = {"spec": {"overhead": {"cpu": "x"}, "containers": containers}}
    assert least_resources(read_job(job(task("a", 2) | {"template": template})), {}) == {"memory": "2"}


FLAGS: list[Any] = [
    (["--port=1"], {"port": 1}),
    (["-port", "2"], {"port": 2}),
    (["--on"], {"on": True}),
    (["--on=F"], {"on": False}),
    (["--odd=1", "--port=3"], {}),
    (["--port=x", "--on"], {}),
    (["port=3"], {}),
]


@pytest.mark.parametrize(("arguments", "changed"), FLAGS)
def test_arguments_are_read_as_go_reads_them(arguments: list[str], changed: Object) -> None:
    defaults: dict[str, str | int | bool] = {"port": 0, "on": False}
    assert read_flags(arguments, defaults) == {**defaults, **changed}


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
