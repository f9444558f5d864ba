"""`dialects/job_kinds/job_set.py`: jobSet (`jobset.x-k8s.io/v1alpha2`)."""

from __future__ import annotations

from phalanx.dialects.job_kinds.form import LATER
from phalanx.dialects.job_kinds.job_set import JOB_SET
from tests.dialects.job_kinds.test_forms import obj, replicated


def test_what_depends_on_others_starts_later() -> None:
    jobs = [replicated("a", 1, 1, 1), replicated("b", 1, 1, 1, dependsOn=[{"name": "a", "status": "Complete"}])]
    depends, in_order = obj(replicatedJobs=jobs), obj(replicatedJobs=[replicated(name, 1, 1, 1) for name in "ab"])
    in_order["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    for one in (depends, in_order):
        late = [LATER in JOB_SET.view(one, role)["metadata"]["annotations"] for role in "ab"]
        assert late == [False, True]
