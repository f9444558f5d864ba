"""As a user of the Kubeflow SDK writes it: a function is trained on two nodes of a runtime, and its logs are read;
one fails; another is deleted while it runs."""

from kubeflow.trainer import CustomTrainer, TrainerClient
from kubeflow.trainer.options import Labels, Name
from kubernetes import client, config

FRAMEWORK, STEP = "trainer.kubeflow.org/framework", "trainer.kubeflow.org/trainjob-ancestor-step"
GROUP, VERSION, RUNTIMES = "trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes"


def make_runtime(name: str) -> None:
    """What the administrator applies: a runtime without a framework, whose image is this machine."""
    config.load_kube_config()
    pod = {"restartPolicy": "Never", "containers": [{"name": "node", "image": "host"}]}
    trainer = {"metadata": {"labels": {STEP: "trainer"}}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}
    runtime = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {FRAMEWORK: "plainml"}},
        "spec": {
            "mlPolicy": {"numNodes": 1},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": trainer}]}},
        },
    }
    client.CustomObjectsApi().create_cluster_custom_object(GROUP, VERSION, RUNTIMES, runtime)


def train(steps: int) -> None:
    """Runs in the pods, without anything else of this file."""
    import os

    rank = int(os.environ["JOB_COMPLETION_INDEX"])
    weight = 0.0
    for _ in range(steps):
        weight -= 0.5 * (weight - rank)
    print(f"node {rank} learned {weight:.2f} on {os.uname().nodename}")


def fail() -> None:
    raise SystemExit("no such data")


def sleep() -> None:
    import signal

    signal.pause()  # until it is deleted


def trainer(func: object, nodes: int = 1, **arguments: object) -> CustomTrainer:
    small = {"cpu": "500m", "memory": "128Mi"}
    return CustomTrainer(func=func, func_args=arguments or None, num_nodes=nodes, resources_per_node=small)


def is_trained(kubeflow: TrainerClient, runtime: str) -> set[str]:
    labels = Labels({"team": "vision"})
    name = kubeflow.train(runtime=runtime, trainer=trainer(train, nodes=2, steps=20), options=[labels])
    done = kubeflow.wait_for_job_status(name, timeout=120)
    assert done.status == "Complete", done
    assert done.num_nodes == 2
    assert sorted(step.name for step in done.steps) == ["node-0", "node-1"], done.steps
    assert {step.status for step in done.steps} == {"Succeeded"}, done.steps
    told = [line for rank in range(2) for line in kubeflow.get_job_logs(name, step=f"node-{rank}")]
    assert [line.partition(" on ")[0] for line in told] == ["node 0 learned 0.00", "node 1 learned 1.00"], told
    followed = list(kubeflow.get_job_logs(name, follow=True))
    assert followed == told[:1], followed
    about = {event.involved_object_kind for event in kubeflow.get_job_events(name)}
    assert "Pod" in about, about
    return {line.partition(" on ")[2] for line in told}


def fails(kubeflow: TrainerClient, runtime: str) -> None:
    name = kubeflow.train(runtime=runtime, trainer=trainer(fail), options=[Name("fails")])
    assert name == "fails"
    assert kubeflow.wait_for_job_status(name, status={"Failed"}, timeout=120).status == "Failed"
    assert "no such data" in "\n".join(kubeflow.get_job_logs(name))


def is_deleted(kubeflow: TrainerClient, runtime: str) -> None:
    name = kubeflow.train(runtime=runtime, trainer=trainer(sleep))
    kubeflow.wait_for_job_status(name, status={"Running"}, timeout=120, polling_interval=1)
    kubeflow.delete_job(name)
    assert name not in {job.name for job in kubeflow.list_jobs()}


def main() -> None:
    make_runtime("plain")
    kubeflow = TrainerClient()
    found = kubeflow.get_runtime("plain")
    assert (found.name, found.trainer.num_nodes) == ("plain", 1)
    assert [one.name for one in kubeflow.list_runtimes()] == ["plain"]
    hosts = is_trained(kubeflow, "plain")
    fails(kubeflow, "plain")
    is_deleted(kubeflow, "plain")
    print(f"a function was trained on {len(hosts)} nodes of a TrainJob; one failed; a running one was deleted")


if __name__ == "__main__":
    main()
