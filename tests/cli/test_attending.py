"""`cli/cluster/jobs/attending.py`: follow a Job from its submission to its end."""

from __future__ import annotations

import asyncio

import pytest
import yaml

from phalanx.cli.cluster.jobs import attending
from phalanx.client.connection import Connection
from phalanx.client.kind import EVENTS, JOBS, NAMESPACES
from tests.cli.test_job_reading import batch_job, started_pod
from tests.embedded.apiserver.process import ServerProcess

SPACE = "attending"
SENT = """
apiVersion: batch/v1
kind: Job
metadata: {name: far}
spec:
  suspend: true
  managedBy: kueue.x-k8s.io/multikueue
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}
"""


def test_a_program_that_was_never_started_is_told_beside_its_exit_code() -> None:
    ended = {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such program"}}
    job = batch_job("web", 1, "1")
    watch = attending._Watch(job=job, say=print, prefixed=False)
    assert attending._outcome("failed", watch, [started_pod(job, "n1", ended)]).why == (
        "exit code 128; StartError: no such program"
    )


@pytest.mark.slow
async def test_the_user_of_a_job_for_another_cluster_is_told_why_it_waits(api_server: ServerProcess) -> None:
    async with asyncio.timeout(60), await Connection.open(api_server.kubeconfig) as user:
        await user.create(NAMESPACES, {"metadata": {"name": SPACE}})
        job = await user.create(JOBS, yaml.safe_load(SENT), SPACE)
        about = {"kind": "Job", "namespace": SPACE, "name": "far", "uid": job["metadata"]["uid"]}
        said: asyncio.Queue[str] = asyncio.Queue()
        attended = asyncio.create_task(attending.attend(user, job, said.put_nowait))
        for number, why in enumerate(("QueueLimit: a", "QueueLimit: a", "Backoff: b")):
            event = {"metadata": {"name": f"far.{number}"}, "involvedObject": about, "reason": "Queued", "message": why}
            await user.create(EVENTS, {**event, "type": "Normal"}, SPACE)
        assert [await said.get(), await said.get()] == ["waiting: QueueLimit: a", "waiting: Backoff: b"]
        await user.delete(JOBS, "far", SPACE, {"propagationPolicy": "Background"})
        assert (await attended).state == "deleted"
    assert said.empty()
