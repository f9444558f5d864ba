"""A ClusterQueue's AdmissionChecks: quota is reserved, then they are asked, and the job starts when all are Ready."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.kueue import kinds
from tests.dialects.kueue.written import named
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
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


UPDATE = {
    "name": "main",
    "labels": {"team": "a"},
    "annotations": {"autoscaling.x-k8s.io/consume-provisioning-request": "pr-1"},
    "nodeSelector": {"pool": "new"},
    "tolerations": [{"key": "new", "operator": "Exists", "effect": "NoSchedule"}],
}


def with_two_pools() -> Stage:
    """`n1` has room first; `n2` is of the pool that the check asks for, and keeps off who does not tolerate it."""
    here = stage(3, {"name": "c"})
    new = node("n2", 8)
    new["metadata"]["labels"] = {"pool": "new"}
    new["spec"] = {"taints": [{"key": "new", "effect": "NoSchedule"}]}
    here.put_node(new)
    return here


def template(here: Stage, name: str = "one") -> Object:
    found: Object = here.api.job(name)["spec"]["template"]
    return found


def test_what_a_check_says_of_the_pods_is_put_into_them_and_they_go_where_it_says() -> None:
    """pkg/podset of Kueue: labels, annotations, nodeSelector and tolerations of podSetUpdates."""

    async def scene() -> None:
        here = with_two_pools()
        one = job("one", 2)
        one["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
        here.put(one)
        async with here.scheduler():
            await reserved(here)
            await here.until(lambda: states(here) == {"c": "Pending"})
            decide(here, "c", "Ready", podSetUpdates=[UPDATE])
            await here.until(lambda: len(here.api.bound()) == 2)
            assert set(here.api.bound().values()) == {"n2"}
            now = template(here)
            assert now["metadata"] == {"labels": {"app": "x", "team": "a"}, "annotations": UPDATE["annotations"]}
            assert now["spec"]["nodeSelector"] == {"pool": "new"}
            assert now["spec"]["tolerations"] == UPDATE["tolerations"]
            shown = workload(here, "one")["spec"]["podSets"][0]["template"]
            assert shown["metadata"] == {"labels": {"app": "x"}}
            assert not shown["spec"].get("nodeSelector")
            assert not shown["spec"].get("tolerations")

    play(scene())


def test_the_next_start_takes_out_of_the_pods_what_the_last_put_into_them() -> None:
    async def scene() -> None:
        here = with_two_pools()
        here.put(job("one", 2))
        async with here.scheduler():
            await reserved(here)
            await here.until(lambda: states(here) == {"c": "Pending"})
            decide(here, "c", "Ready", podSetUpdates=[UPDATE])
            await here.until(lambda: len(here.api.bound()) == 2)
            decide(here, "c", "Retry")
            await here.until(lambda: not here.api.pods())
            await here.until(lambda: states(here) == {"c": "Pending"})
            here.now_s += 2
            here.api.put(kinds.WORKLOADS, workload(here, "one") | {"x": "looked at again"})
            await reserved(here)
        async with here.scheduler():
            await reserved(here)
            decide(here, "c", "Ready", podSetUpdates=[{"name": "main", "labels": {"team": "b"}}])
            await here.until(lambda: len(here.api.bound()) == 2)
            assert set(here.api.bound().values()) == {"n1"}
            now = template(here)
            assert now.get("metadata") == {"labels": {"team": "b"}, "annotations": {}}
            assert not now["spec"].get("nodeSelector")
            assert not now["spec"].get("tolerations")

    play(scene())


@pytest.mark.parametrize("field", ["labels", "annotations", "nodeSelector"])
def test_a_job_whose_pods_say_otherwise_has_failed_to_start(field: str) -> None:
    async def scene() -> None:
        here = stage()
        one = job("one", 2)
        words = {"pool": "old"}
        if field == "nodeSelector":
            old = node("n2", 8)
            here.put_node({**old, "metadata": {**old["metadata"], "labels": words}})
            one["spec"]["template"]["spec"]["nodeSelector"] = words
        else:
            one["spec"]["template"]["metadata"] = {field: words}
        here.put(one)
        here.put(job("two", 2))
        async with here.scheduler():
            await reserved(here)
            await here.until(lambda: states(here) == {"c": "Pending"})
            decide(here, "c", "Ready", podSetUpdates=[{"name": "main", field: {"pool": "new"}}])
            await here.until(lambda: conditions(here, "one").get("Finished") == "True FailedToStart")
            said = next(one for one in workload(here, "one")["status"]["conditions"] if one["type"] == "Finished")
            assert "set pool to different values: old and new" in said["message"]
            await here.until(lambda: conditions(here, "two").get("QuotaReserved") == "True QuotaReserved")
            await settle(here, 20)
            assert not here.api.pods()

    play(scene())


def own_check(controller: str, **parameters: str) -> Object:
    spec: Object = {"controllerName": f"kueue.x-k8s.io/{controller}"}
    if parameters:
        spec["parameters"] = {"apiGroup": kinds.GROUP, **parameters}
    return named("c", spec=spec)


def active(here: Stage) -> str:
    """The condition Active of the check and of its ClusterQueue."""
    both = (
        here.api.objects[kind].get(name) or {}
        for kind, name in ((kinds.ADMISSION_CHECKS, "c"), (kinds.CLUSTER_QUEUES, "a"))
    )
    found = [((one.get("status") or {}).get("conditions") or [{"reason": "", "status": ""}])[0] for one in both]
    return ", ".join(f"{one['status']} {one['reason']}" for one in found)


def test_a_provisioning_check_is_ready_where_there_is_room_since_no_node_is_needed() -> None:
    async def scene() -> None:
        here = stage()
        here.api.put(
            kinds.ADMISSION_CHECKS, own_check("provisioning-request", kind="ProvisioningRequestConfig", name="prc")
        )
        here.put(job("one", 2))
        async with here.scheduler():
            await here.until(lambda: active(here) == "False BadParametersRef, False AdmissionCheckInactive")
            await settle(here)
            assert not here.api.pods()
            here.api.put(kinds.PROVISIONING_CONFIGS, named("prc", spec={"provisioningClassName": "x"}))
            await here.until(lambda: active(here) == "True Active, True Ready")
            await here.until(lambda: len(here.api.bound()) == 2)
            await here.until(lambda: states(here) == {"c": "Ready"})
            await here.until(lambda: conditions(here, "one").get("Admitted") == "True Admitted")

    play(scene())


def test_a_multikueue_check_says_that_no_cluster_is_usable() -> None:
    async def scene() -> None:
        here = stage()
        here.api.put(kinds.ADMISSION_CHECKS, own_check("multikueue", kind="MultiKueueConfig", name="config"))
        here.put(job("one", 2))
        async with here.scheduler():
            await here.until(lambda: active(here) == "False BadConfig, False AdmissionCheckInactive")
            config = named("config", spec={"clusters": ["w1", "w2"]})
            here.api.put(kinds.MULTI_CONFIGS, config)
            here.api.put(kinds.MULTI_CLUSTERS, named("w2"))
            await here.until(lambda: active(here) == "False NoUsableClusters, False AdmissionCheckInactive")
            message = here.api.objects[kinds.ADMISSION_CHECKS]["c"]["status"]["conditions"][0]["message"]
            assert message == "Missing clusters: [w1], Inactive clusters: [w2]"
            await settle(here)
            assert not here.api.pods()

    play(scene())
