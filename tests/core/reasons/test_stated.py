"""`core/reasons/stated.py`: a reason states the amount that the user wrote, although the core counts less of it."""

from __future__ import annotations

from dataclasses import replace

from phalanx.model.event import QueueSeen
from phalanx.model.pod import MAX_AMOUNT
from phalanx.model.queue import Limits
from phalanx.model.reason import ReasonCode
from tests.core.builders import cluster, job, node, role
from tests.core.test_hostile import decided, gpus, waits


def test_a_limit_is_compared_with_the_amount_that_the_job_states() -> None:
    assert MAX_AMOUNT < 2**63 - 1
    limits = gpus("q", limit=4), replace(gpus("r"), per_job=Limits(resources=(("gpu", 4),)))
    jobs = [job(f"j{each.name}", role(count=3, gpu=2**63 - 1), queue=each.name) for each in limits]
    reasons = waits(decided(cluster(node("n", gpu=4), *map(QueueSeen, limits), *jobs)))
    for each, what in ((reasons["jq"], "in all"), (reasons["jr"], "a job")):
        assert each.code is ReasonCode.NEVER_WITHIN_LIMIT
        assert each.text.startswith(f"{3 * (2**63 - 1)} gpu asked, but queue ")
        assert each.text.endswith(f"allows 4 gpu {what}")
        assert each.numbers["asked"] == 3 * (2**63 - 1)
