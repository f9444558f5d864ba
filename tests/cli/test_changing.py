"""`cli/cluster/jobs/changing.py`: which jobs can be held, released and get a nice value."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.cli.cluster.jobs.changing import require_changeable, takes_words
from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.client.kind import JOBS
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.errors import PhalanxError


def found(kind: Any, **spec: Any) -> FoundJob:
    obj = {"metadata": {"name": "v", "namespace": "default"}, "spec": spec, "status": {}}
    return FoundJob(kind="job", namespace="default", name="v", members=(Member(kind=kind, obj=obj),))


def test_a_volcano_job_of_this_cluster_has_no_word_for_it() -> None:
    with pytest.raises(PhalanxError, match=r"is a Job of batch\.volcano\.sh, which has no such setting"):
        require_changeable(found(VOLCANO_JOB.kind, schedulerName="volcano"), "held", waits=False)


@pytest.mark.parametrize(
    "job", [found(JOBS, suspend=True), found(VOLCANO_JOB.kind, schedulerName="kueue.x-k8s.io/multikueue")]
)
def test_a_job_that_phalanx_reads_itself_is_changed(job: FoundJob) -> None:
    require_changeable(job, "held", waits=False)
    assert all(map(takes_words, job.members))
