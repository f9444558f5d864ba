"""`job/fields.py`: the fields of Jobs that the Job controller reads and writes."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.schema.schema import definitions
from phalanx.embedded.controllers.job import fields

KINDS = {
    fields.ExitCodes: "PodFailurePolicyOnExitCodesRequirement",
    fields.ConditionPattern: "PodFailurePolicyOnPodConditionsPattern",
    fields.FailureRule: "PodFailurePolicyRule",
    fields.FailurePolicy: "PodFailurePolicy",
    fields.SuccessRule: "SuccessPolicyRule",
    fields.SuccessPolicy: "SuccessPolicy",
    fields.BatchJobSpec: "JobSpec",
    fields.JobCondition: "JobCondition",
    fields.UncountedPods: "UncountedTerminatedPods",
    fields.JobStatus: "JobStatus",
}


@pytest.mark.parametrize("view", KINDS)
def test_the_schema_has_every_field(view: type) -> None:
    schema = definitions()[f"io.k8s.api.batch.v1.{KINDS[view]}"]["properties"]
    assert view.__annotations__.keys() <= schema.keys()
