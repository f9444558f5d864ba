"""`dialects/job_kinds/spark.py`: sparkApplication (`sparkoperator.k8s.io/v1beta2`)."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.quantity import amount
from phalanx.dialects.job_kinds.form import Framework
from phalanx.dialects.job_kinds.job_set import JOB_SET
from phalanx.dialects.job_kinds.ray import RAY_JOB
from phalanx.dialects.job_kinds.replica_types import MPI_JOB
from phalanx.dialects.job_kinds.spark import SPARK
from tests.dialects.job_kinds.test_forms import JOBSET, MPI, RAY, SPARK_PI, Object


def test_sparks_memory_has_its_overhead() -> None:
    def memory(role: str, **spec: Any) -> int:
        template = SPARK.view({**SPARK_PI, "spec": {**SPARK_PI["spec"], **spec}}, role)["spec"]["template"]
        return amount("memory", template["spec"]["containers"][0]["resources"]["requests"]["memory"])

    mib = 1024 * 1024
    assert memory("driver") == (512 + 384) * mib, "at least 384 MiB"
    assert memory("executor") == 8 * 1024 * mib * 110 // 100 + 1
    assert memory("executor", type="Python") == 8 * 1024 * mib * 140 // 100 + 1
    assert memory("driver", driver={"memory": "1g", "memoryOverhead": "100m"}) == 1124 * mib
    with pytest.raises(ValueError, match="Java's form"):
        memory("driver", driver={"memory": "a lot"})


@pytest.mark.parametrize(
    ("form", "status", "end"),
    [
        (JOB_SET, {"conditions": [{"type": "Completed", "status": "True"}]}, ["Complete"]),
        (JOB_SET, {"conditions": [{"type": "Suspended", "status": "True"}]}, []),
        (MPI_JOB, {"conditions": [{"type": "Failed", "status": "True"}]}, ["Failed"]),
        (RAY_JOB, {"jobDeploymentStatus": "Complete"}, ["Complete"]),
        (RAY_JOB, {"jobDeploymentStatus": "Running"}, []),
        (SPARK, {"applicationState": {"state": "COMPLETED"}}, ["Complete"]),
        (SPARK, {"applicationState": {"state": "SUBMISSION_FAILED"}}, ["Failed"]),
    ],
    ids=str,
)
def test_how_it_ended(form: Framework, status: Object, end: list[str]) -> None:
    job = {JOB_SET: JOBSET, MPI_JOB: MPI, RAY_JOB: RAY, SPARK: SPARK_PI}[form]  # type: ignore[index]  # these can be keys
    (first, *_) = form.roles(job, None)
    shown = form.view({**job, "status": status}, first, None)["status"]
    assert [one["type"] for one in shown.get("conditions", ())] == end


def test_a_failed_submission_that_is_tried_again_has_not_ended() -> None:
    job = {**SPARK_PI, "spec": {**SPARK_PI["spec"], "restartPolicy": {"type": "OnFailure"}}}
    assert not SPARK.view({**job, "status": {"applicationState": {"state": "SUBMISSION_FAILED"}}}, "driver")["status"]
