"""A ClusterQueue's AdmissionChecks: quota is reserved, then they are asked, and the job starts when all are Ready."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.kueue import kinds
from tests.dialects.kueue.written import named
from tests.kube.double import Object
from tests.kube.stage import Stage
from tests.kube.test_barrier import play, settle
from tests.kube.test_kueue import conditions, job, stage_with, workload

ACTIVE = {"conditions": [{"type": "Active", "status": "True", "reason": "Active"}]}


def stage(cpu: int = 3, *checks: Object) -> Stage:
    listed = list(checks) or [{"name": "c"}]
    found = stage_with(cpu, admissionChecksStrategy={"admissionChecks": listed})
    for one in listed:
        found.api.put(kinds.ADMISSION_CHECKS, named(one["name"], spec={"controllerName": "x/y"}, status=ACTIVE))
    return found


def decide(here: Stage, name: str, state: str, of: str = "one", **more: Any) -> None:
    """As the check's controller does."""
    found = workload(here, of)
    listed = [
        {**one, "state": state, "message": "because", **more} if one["name"] == name else one
        for one in found["status"]["admissionChecks"]
    ]
    here.api.put(kinds.WORKLOADS, {**found, "status": {**found["status"], "admissionChecks": listed}})


def states(here: Stage, of: str = "one") -> dict[str, str]:
    found = (workload(here, of).get("status") or {}).get("admissionChecks") or ()
    return {one["name"]: one["state"] for one in found}


def counts(here: Stage) -> tuple[int, ...]:
    status = here.api.objects[kinds.CLUSTER_QUEUES]["a"].get("status") or {}
    return tuple(status.get(f"{name}Workloads", -1) for name in ("pending", "reserving", "admitted"))


async def reserved(here: Stage) -> None:
    await here.until(lambda: conditions(here, "one").get("QuotaReserved") == "True QuotaReserved")


def test_quota_is_reserved_and_the_job_starts_when_all_checks_are_ready() -> None:
    async def scene() -> None:
        here = stage(3, {"name": "c"}, {"name": "d"})
        here.put(job("one", 2))
        async with here.scheduler():
            await reserved(here)
            await here.until(lambda: states(here) == {"c": "Pending", "d": "Pending"})
            here.put(job("two", 2))
            await here.until(lambda: conditions(here, "two").get("QuotaReserved") == "False WaitingForQuota")
            await here.until(lambda: counts(here) == (1, 1, 0))
            status = here.api.objects[kinds.CLUSTER_QUEUES]["a"]["status"]
            totals = [status[key][0]["resources"][0]["total"] for key in ("flavorsReservation", "flavorsUsage")]
            assert totals == ["2", "0"]
            decide(here, "c", "Ready")
            await settle(here)
            assert not here.api.pods()
            assert conditions(here, "one").get("Admitted") != "True Admitted"
            decide(here, "d", "Ready")
            await here.until(lambda: len(here.api.bound()) == 2)
            await here.until(lambda: conditions(here, "one").get("Admitted") == "True Admitted")
            assert states(here) == {"c": "Ready", "d": "Ready"}
            await here.until(lambda: counts(here) == (1, 1, 1))

    play(scene())


def test_what_is_to_be_retried_gives_its_quota_back_and_is_asked_again() -> None:
    async def scene() -> None:
        here = stage()
        here.put(job("one", 2))
        async with here.scheduler():
            await reserved(here)
            await here.until(lambda: states(here) == {"c": "Pending"})
            decide(here, "c", "Retry", requeueAfterSeconds=60)
            await here.until(lambda: conditions(here, "one").get("Evicted") == "True AdmissionCheck")
            await here.until(lambda: conditions(here, "one")["QuotaReserved"].startswith("False"))
            (check,) = workload(here, "one")["status"]["admissionChecks"]
            assert (check["state"], check["retryCount"]) == ("Pending", 1)
            assert check["message"] == "Reset to Pending after eviction. Previously: Retry"
            assert conditions(here, "one")["Requeued"] == "False AdmissionCheck"
            await settle(here, 30)
            assert conditions(here, "one")["QuotaReserved"].startswith("False"), "it rests as long as it was said"
            assert counts(here)[:2] == (1, 0)
            here.now_s += 61
            here.api.put(kinds.WORKLOADS, workload(here, "one") | {"x": "looked at again"})
            await reserved(here)
            assert conditions(here, "one")["Requeued"] == "True BackoffFinished"
            evictions = workload(here, "one")["status"]["schedulingStats"]["evictions"]
            assert [(one["reason"], one["count"]) for one in evictions] == [("AdmissionCheck", 1)]
            decide(here, "c", "Ready")
            await here.until(lambda: len(here.api.bound()) == 2)

    play(scene())


@pytest.mark.parametrize("running", [False, True], ids=["while it waits for it", "while it runs"])
def test_what_is_rejected_is_deactivated(running: bool) -> None:
    async def scene() -> None:
        here = stage()
        here.put(job("one", 2))
        async with here.scheduler():
            await reserved(here)
            await here.until(lambda: states(here) == {"c": "Pending"})
            if running:
                decide(here, "c", "Ready")
                await here.until(lambda: conditions(here, "one").get("Admitted") == "True Admitted")
            decide(here, "c", "Rejected")
            await here.until(lambda: workload(here, "one")["spec"]["active"] is False)
            await here.until(lambda: conditions(here, "one").get("Evicted") == "True DeactivatedDueToAdmissionCheck")
            await here.until(lambda: not here.api.pods())
            await here.until(lambda: counts(here)[1:] == (0, 0))

    play(scene())


def test_a_check_on_other_flavors_does_not_decide() -> None:
    async def scene() -> None:
        here = stage(3, {"name": "c", "onFlavors": ["another"]})
        here.put(job("one", 2))
        async with here.scheduler():
            await here.until(lambda: len(here.api.bound()) == 2)
            await here.until(lambda: conditions(here, "one").get("Admitted") == "True Admitted")
            assert states(here) == {}

    play(scene())


def test_after_a_restart_its_checks_are_waited_for_again() -> None:
    async def scene() -> None:
        here = stage()
        here.put(job("one", 2))
        async with here.scheduler():
            await reserved(here)
            await here.until(lambda: states(here) == {"c": "Pending"})
        async with here.scheduler():
            await settle(here, 20)
            await reserved(here)
            assert not here.api.pods()
            decide(here, "c", "Ready")
            await here.until(lambda: len(here.api.bound()) == 2)

    play(scene())
