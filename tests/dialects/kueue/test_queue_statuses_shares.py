"""The weighted shares of queues that lend in part: the figures follow from Kueue's rules in `fair_sharing.go`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phalanx.dialects.kueue.answers.queue_statuses import INFINITE, shares
from phalanx.dialects.kueue.tree.configuration import DEFAULTS
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions
from tests.dialects.kueue.written import cluster_queue, defined, group, named

CPU = ("f", "cpu")


def fair(**some: Any) -> KueueDefinitions:
    return replace(defined(**some), configuration=replace(DEFAULTS, fair=True))


def quota(nominal: int, **limits: int) -> Any:
    return group(f={"cpu": {"nominalQuota": nominal, **limits}})


def test_share_counts_only_what_the_cohort_can_lend() -> None:
    queues = [
        cluster_queue("a", quota(2), cohortName="c"),
        cluster_queue("b", quota(8, lendingLimit=2), cohortName="c"),
    ]
    found, _ = shares(fair(cluster_queues=queues), {"a": {CPU: 4000}})
    assert found == {"a": 500, "b": 0}  # 2 of the 2 + 2 that can be lent, not of all 10


def test_cohort_borrows_only_beyond_what_its_queues_keep() -> None:
    cohorts = [named(name, spec={"parentName": "root"} if name != "root" else {}) for name in ("root", "left", "right")]
    queues = [
        cluster_queue("a", quota(4, lendingLimit=1), cohortName="left"),
        cluster_queue("b", quota(9), cohortName="right"),
    ]
    found, of_cohorts = shares(fair(cluster_queues=queues, cohorts=cohorts), {"a": {CPU: 6000}})
    # a has 4 and uses 6; `left` is lent 1 and uses 3 of it; the root has 1 + 9.
    assert found == {"a": 200, "b": 0}
    assert of_cohorts == {"root": 0, "left": 200, "right": 0}


def test_weight_divides_and_weight_zero_is_infinite() -> None:
    for weight, share in (("2", 100), ("500m", 400), ("0", INFINITE)):
        queues = [
            cluster_queue("a", quota(5), cohortName="c", fairSharing={"weight": weight}),
            cluster_queue("b", quota(5), cohortName="c"),
        ]
        found, _ = shares(fair(cluster_queues=queues), {"a": {CPU: 7000}})
        assert found["a"] == share
