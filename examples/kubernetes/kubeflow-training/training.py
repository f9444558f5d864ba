"""As a user of the training operator's SDK writes it: a PyTorchJob of a master and two workers, its states and logs;
one fails; another is deleted while it runs."""

from kubeflow.training import TrainingClient
from kubeflow.training.models import (
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
)
from kubernetes.client import V1Container, V1ObjectMeta, V1PodSpec, V1PodTemplateSpec, V1ResourceRequirements

TOLD = 'echo "rank $RANK of $WORLD_SIZE, master at $MASTER_ADDR, on $(hostname)"'


def job(name: str, words: str, workers: int) -> KubeflowOrgV1PyTorchJob:
    small = V1ResourceRequirements(requests={"cpu": "500m", "memory": "64Mi"})
    container = V1Container(name="pytorch", image="host", command=["sh", "-c", words], resources=small)
    template = V1PodTemplateSpec(spec=V1PodSpec(containers=[container]))

    def replicas(number: int) -> KubeflowOrgV1ReplicaSpec:
        return KubeflowOrgV1ReplicaSpec(replicas=number, restart_policy="Never", template=template)

    parts = {"Master": replicas(1)} | ({"Worker": replicas(workers)} if workers else {})
    policy = KubeflowOrgV1RunPolicy(clean_pod_policy="None")
    return KubeflowOrgV1PyTorchJob(
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        metadata=V1ObjectMeta(name=name),
        spec=KubeflowOrgV1PyTorchJobSpec(run_policy=policy, pytorch_replica_specs=parts),
    )


def succeeds(kubeflow: TrainingClient) -> set[str]:
    kubeflow.create_job(job("train", TOLD, 2), num_workers=None)
    kubeflow.wait_for_job_conditions("train", wait_timeout=120, polling_interval=1)
    assert kubeflow.is_job_succeeded("train")
    names = set(kubeflow.get_job_pod_names("train"))
    assert names == {"train-master-0", "train-worker-0", "train-worker-1"}, names
    assert kubeflow.get_job_pod_names("train", is_master=True) == ["train-master-0"]
    logs, events = kubeflow.get_job_logs("train", is_master=False, verbose=True)
    told = sorted(line.strip() for line in logs.values())
    assert [line.partition(", master")[0] for line in told] == [f"rank {rank} of 3" for rank in range(3)], told
    assert events, events
    return {line.rpartition(" ")[2] for line in told}


def fails(kubeflow: TrainingClient) -> None:
    kubeflow.create_job(job("fails", "exit 3", 0))
    kubeflow.wait_for_job_conditions("fails", expected_conditions={"Failed"}, wait_timeout=120, polling_interval=1)
    assert kubeflow.is_job_failed("fails")


def is_deleted(kubeflow: TrainingClient) -> None:
    kubeflow.create_job(job("long", "sleep 300", 1))
    kubeflow.wait_for_job_conditions("long", expected_conditions={"Running"}, wait_timeout=120, polling_interval=1)
    kubeflow.delete_job("long")
    assert {one.metadata.name for one in kubeflow.list_jobs()} == {"train", "fails"}


def main() -> None:
    kubeflow = TrainingClient()
    hosts = succeeds(kubeflow)
    fails(kubeflow)
    is_deleted(kubeflow)
    print(f"a PyTorchJob ended well on {len(hosts)} hosts; one failed; a running one was deleted")


if __name__ == "__main__":
    main()
