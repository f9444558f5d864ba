"""As a user of Airflow writes it: a DAG whose tasks are a Job in a LocalQueue of Kueue's and a pod, with its logs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# Airflow's own settings, before it is imported: a database of this run's, without its examples.
HOME = Path(os.environ["HOME"]) / "airflow"
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent),
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}
SPACE = "default"
QUOTA = {"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": 2}]}]}
KUEUE = ("kueue.x-k8s.io", "v1beta2")


def prepare() -> None:
    """What an administrator does once: a queue."""
    from kubernetes import client, config

    config.load_kube_config()
    objects = client.CustomObjectsApi()

    def body(kind: str, name: str, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": "/".join(KUEUE), "kind": kind, "metadata": {"name": name}, "spec": spec}

    research = body("ClusterQueue", "research", namespaceSelector={}, resourceGroups=[QUOTA])
    objects.create_cluster_custom_object(*KUEUE, "resourceflavors", body("ResourceFlavor", "any"))
    objects.create_cluster_custom_object(*KUEUE, "clusterqueues", research)
    team = body("LocalQueue", "team", clusterQueue="research")
    objects.create_namespaced_custom_object(*KUEUE, SPACE, "localqueues", team)


def finished() -> list[str]:
    from kubernetes import client

    found = client.CustomObjectsApi().list_namespaced_custom_object(*KUEUE, SPACE, "workloads")["items"]
    said = [condition for one in found for condition in one["status"]["conditions"]]
    return sorted(one["reason"] for one in said if one["type"] == "Finished")


def flow() -> Any:
    from airflow.providers.cncf.kubernetes.operators.kueue import KubernetesStartKueueJobOperator
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    from airflow.sdk import DAG
    from kubernetes.client import V1ResourceRequirements

    where = {
        "namespace": SPACE,
        "image": "host",
        "config_file": os.environ["KUBECONFIG"],
        "kubernetes_conn_id": None,
        "container_resources": V1ResourceRequirements(requests={"cpu": "500m"}),
    }
    with DAG("example", schedule=None) as dag:
        job = KubernetesStartKueueJobOperator(
            task_id="job",
            name="job",
            queue_name="team",
            cmds=["sh", "-c", 'test -n "$HOSTNAME" && sleep 1'],
            parallelism=2,
            completions=2,
            suspend=True,
            wait_until_job_complete=True,
            discover_pods_retry_number=10_000,  # without a pause between; a Job that waits in a queue has no pods yet
            job_poll_interval=1,
            **where,
        )
        pod = KubernetesPodOperator(
            task_id="pod",
            name="pod",
            labels={"kueue.x-k8s.io/queue-name": "team"},
            cmds=["sh", "-c", "echo said by a pod"],
            get_logs=True,
            on_finish_action="keep_pod",
            **where,
        )
        job >> pod
    return dag


def airflow(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "airflow", *words], check=True, capture_output=True)


def main() -> None:
    airflow("db", "migrate")
    airflow("dags", "reserialize")
    prepare()
    run = dag.test()
    assert run.state == "success", run
    assert finished() == ["Succeeded", "Succeeded"], finished()
    print("a DAG ended well: a Job of two pods and a pod, both admitted by a LocalQueue")


dag = flow()

if __name__ == "__main__":
    main()
