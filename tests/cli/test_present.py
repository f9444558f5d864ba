"""`cli/views/job/present.py`: the scheduler's present state as a snapshot."""

from __future__ import annotations

from tests.cli.test_job_reading import NOW_S
from tests.cli.test_served import OBJECTS, scheduler


async def test_the_snapshot_has_the_reasons_and_known_starts_of_the_scheduler() -> None:
    served, cluster = scheduler(*OBJECTS, starts={"default/wide": NOW_S + 3600, "default/gone": NOW_S})
    seen = served._present.snapshot()
    assert seen.cluster is cluster
    assert seen.reasons == {job: cluster.reason(job) for job in ("default/wide", "default/huge")}
    assert {job: start.start_s for job, start in (seen.starts or {}).items()} == {"default/wide": NOW_S + 3600}
