"""As a user of Airflow writes it: a DAG whose tasks are a Job in a LocalQueue of Kueue's and a pod, with its logs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from queues import QUEUE, SPACE, endings, make_queue

# Airflow's own settings, before it is imported: a database of this run's, without its examples.
HOME = Path(os.environ["HOME"]) / "airflow"
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent),
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
}


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
            queue_name=QUEUE,
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
            labels={"kueue.x-k8s.io/queue-name": QUEUE},
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
    make_queue({"cpu": 2})
    run = dag.test()
    assert run.state == "success", run
    assert endings() == [("Job", "Succeeded"), ("Pod", "Succeeded")], endings()
    print("a DAG ended well: a Job of two pods and a pod, both admitted by a LocalQueue")


dag = flow()

if __name__ == "__main__":
    main()
