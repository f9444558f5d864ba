"""A Job with any field values is read without an error. Its gang starts whole, or its status states why not."""

from __future__ import annotations

import pytest
from hypothesis import given

from phalanx.kube.gang.spec.gang_spec import GangDefaults, gang_spec
from phalanx.kube.gang.spec.members import GangMembers
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.batch_job import read_job
from phalanx.kube.write.job_patch import ResumeJob
from tests.kube.double import Object, job
from tests.kube.odd_objects import with_words, words
from tests.kube.test_odd_objects import starts_whole_or_says_why

DEFAULTS = GangDefaults(largest=lambda: {"cpu": 4000, "pods": 110})

META = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}


def known(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **META}}


@pytest.mark.slow
@given(words, words)
def test_whatever_a_job_says_is_read_and_decided_on(annotations: dict[str, str], said: dict[str, str]) -> None:
    obj = with_words(known(job("j", 4)), annotations, said)
    read = read_job(obj, AdmissionDefaults())
    spec = gang_spec(GangMembers(id="default/j", jobs=[read], pods=[]), DEFAULTS)
    assert starts_whole_or_says_why(spec.job)
    record = StartRecord(attempt=1, queue="default", count=4)
    assert ResumeJob(read, record, obj).resumption().spec["suspend"] is False
