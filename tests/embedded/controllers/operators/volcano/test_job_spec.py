"""`embedded/controllers/operators/volcano/job_spec.py`: read a Job's spec with Volcano's defaults."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.controllers.operators.volcano import kinds
from phalanx.embedded.controllers.operators.volcano.job_spec import JobFault, never_starts, read_job
from phalanx.embedded.controllers.operators.volcano.plugins import host_data, plugin_objects
from tests.embedded.controllers.operators.volcano.test_plugins import DDP, made, variables
from tests.embedded.controllers.operators.volcano.written import job, task

LATE = {"dependsOn": {"name": ["a", "b"], "iteration": "any"}}


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ({}, 2),  # all three pods, by default
        ({"minAvailable": 3}, 2),
        ({"minAvailable": 2}, None),
        ({"minAvailable": 1}, None),
    ],
    ids=str,
)
def test_gang_that_waits_for_itself_is_reported(spec: dict[str, Any], most: int | None) -> None:
    said = never_starts(read_job(job(task("a", 1), task("b", 1), task("c", 1, **LATE), **spec)))
    assert said == "" if most is None else f"at most {most} in a new Job" in said


def test_minimum_of_a_late_task_counts_if_minimums_of_tasks_do() -> None:
    tasks = (task("a", 3, minAvailable=1), task("c", 1, minAvailable=1, dependsOn={"name": ["a"]}))
    assert "at most 1 in a new Job" in never_starts(read_job(job(*tasks, minAvailable=2)))
    assert never_starts(read_job(job(*tasks, minAvailable=1))) == ""


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
