"""Two schedulers that resume the same jobs do not run side by side: who finds the other at work does not start."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import DEPLOYMENTS, LEASES, Kind
from phalanx.client.moment import write_moment
from phalanx.kube.install.rivals import RivalRuns, refuse_beside_rivals

NOW_S = 1_800_000_000.0


class Leases:
    """A connection that has Kueue's Lease, or refuses to show it."""

    def __init__(self, lease: Any) -> None:
        self.lease = lease

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Any:
        assert (kind, namespace, name) == (LEASES, "kueue-system", "c1f6bfd2.kueue.x-k8s.io")
        if isinstance(self.lease, int):
            raise ApiRefusal(self.lease, "x", "no")
        return {"spec": self.lease}


def look(lease: Any, *dialects: str) -> bool:
    """Whether ours may start."""
    asyncio.run(refuse_beside_rivals(Leases(lease), dialects or ("kueue",), NOW_S))  # type: ignore[arg-type]  # a double
    return True


def held(renewed_s: float, holder: str = "manager_0") -> dict[str, Any]:
    return {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": write_moment(NOW_S - renewed_s)}


def test_whoever_renews_its_lease_is_named_with_what_to_do() -> None:
    with pytest.raises(RivalRuns, match=r"manager_0 holds the Lease.*scale deployment kueue-controller-manager"):
        look(held(5))


@pytest.mark.parametrize(
    "lease", [404, 403, {}, held(600), held(5, holder="")], ids=["none", "may not look", "empty", "old", "given back"]
)
def test_where_nobody_renews_it_we_start(lease: Any) -> None:
    assert look(lease)


def test_only_whom_we_stand_in_for_is_looked_for() -> None:
    assert look(held(5), "kubernetes", "kubeflow")


class Deployments:
    """A connection that has one Deployment, or refuses to show any."""

    def __init__(self, namespace: str, name: str, status: Any) -> None:
        self.there, self.status, self.asked = (namespace, name), status, list[tuple[str, str]]()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Any:
        assert kind == DEPLOYMENTS
        self.asked.append((namespace, name))
        if isinstance(self.status, int) or (namespace, name) != self.there:
            raise ApiRefusal(self.status if isinstance(self.status, int) else 404, "x", "no")
        return {"status": self.status}


@pytest.mark.parametrize(
    ("dialect", "namespace", "name"),
    [
        ("volcano", "volcano-system", "volcano-scheduler"),
        ("yunikorn", "yunikorn", "yunikorn-scheduler"),
        ("koordinator", "koordinator-system", "koord-scheduler"),
        ("scheduler-plugins", "scheduler-plugins", "scheduler-plugins-scheduler"),
        ("kai", "kai-scheduler", "kai-scheduler-default"),
    ],
)
def test_the_scheduler_of_a_dialect_is_found_by_its_deployment(dialect: str, namespace: str, name: str) -> None:
    def look_at(status: Any) -> None:
        asyncio.run(refuse_beside_rivals(Deployments(namespace, name, status), (dialect,), NOW_S))  # type: ignore[arg-type]  # a double

    with pytest.raises(RivalRuns, match=rf"1 pods of .*kubectl -n {namespace} scale deployment {name} --replicas=0"):
        look_at({"readyReplicas": 1})
    for nobody in ({}, {"replicas": 1}, {"readyReplicas": 0}, 403, 404):
        look_at(nobody)
    with pytest.raises(ApiRefusal):
        look_at(500)
    other = Deployments(namespace, "other", {"readyReplicas": 1})
    asyncio.run(refuse_beside_rivals(other, (dialect,), NOW_S))  # type: ignore[arg-type]  # a double
    assert other.asked == [(namespace, name)]


def test_another_refusal_is_no_answer() -> None:
    with pytest.raises(ApiRefusal):
        look(500)
