"""The consumed resources of LocalQueues: samples decay, the present usage counts for an interval, and a status may be
written by any user."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from phalanx.client.kind import NAMESPACES
from phalanx.client.quantity import parse
from phalanx.dialects.kueue.answers import consumed
from phalanx.dialects.kueue.tree.configuration import CONFIGURATIONS, AdmissionFairSharing
from phalanx.dialects.kueue.tree.definitions import KueueDefinitions, define
from tests.dialects.kueue.written import cluster_queue, group, local_queue, named, objects

TERMS = AdmissionFairSharing(half_life_s=600.0, sampling_s=300.0)


def status(at: int, **amounts: str) -> dict[str, Any]:
    """Return the status of a LocalQueue, sampled `at` minutes after noon."""
    said = {"consumedResources": amounts, "lastUpdate": f"2026-01-01T12:{at:02}:00Z"}
    return {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": said}}


def at(minutes: int) -> str:
    return f"2026-01-01T12:{minutes:02}:00Z"


def test_the_first_sample_begins_and_one_before_its_time_changes_nothing() -> None:
    assert consumed.sampled(TERMS, {}, {"cpu": 1000}, at(0)) == {"consumedResources": {}, "lastUpdate": at(0)}
    old = status(0, cpu="3")
    said = old["fairSharing"]["admissionFairSharingStatus"]
    assert consumed.sampled(TERMS, old, {"cpu": 1000}, at(4)) == said
    assert consumed.again_s(TERMS, said) == 1767268800 + 300


def test_half_of_it_is_left_after_the_half_life_and_what_is_in_use_is_added() -> None:
    found = consumed.sampled(TERMS, status(0, cpu="3", memory="1Ki"), {"cpu": 2000, "gpu": 4}, at(10))
    assert (found["lastUpdate"], found["consumedResources"]["memory"]) == (at(10), "512")
    amounts = {name: float(parse(text)) for name, text in found["consumedResources"].items()}
    assert amounts["cpu"] == pytest.approx(3 / 2 + 2 * (1 - 0.5**0.5))
    assert amounts["gpu"] == pytest.approx(4 * (1 - 0.5**0.5))


@pytest.mark.parametrize(
    ("amount", "text"), [(0.0, "0"), (2.0, "2"), (1.5, "1500m"), (0.0001, "100u"), (1e-9, "1n"), (1e-10, "0")]
)
def test_amounts_are_written_as_quantities(amount: float, text: str) -> None:
    assert consumed.written(amount) == text


def shared(**local: Any) -> KueueDefinitions:
    spec = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    queues = [cluster_queue("a", group(f={"cpu": 4, "gpu": 4}), **spec), cluster_queue("b", group(f={"cpu": 4}))]
    found = objects(cluster_queues=queues, local_queues=[local_queue("l", "a", **local), local_queue("n", "b")])
    text = "admissionFairSharing: {usageHalfLifeTime: 1h, resourceWeights: {gpu: 100, cpu: 0}}"
    maps = {"kueue-system/kueue-manager-config": named("kueue-manager-config", "kueue-system")}
    maps["kueue-system/kueue-manager-config"]["data"] = {"controller_manager_config.yaml": text}
    return define({**found, NAMESPACES: {}, CONFIGURATIONS: maps})


@pytest.mark.parametrize(("weight", "usage"), [("1", 150.0), ("2", 75.0), ("0", inf)])
def test_usage_is_the_weighted_sum_over_the_weight(weight: str, usage: float) -> None:
    found = shared(fairSharing={"weight": weight})
    said = status(0, cpu="7", gpu="1500m", odd="many")
    assert consumed.usage(found, found.local_queues["default/l"], said) == usage
    assert consumed.usage(found, found.local_queues["default/n"], said) is None


def test_a_cluster_queue_that_asks_for_it_is_ordered_by_the_usage_of_its_local_queues() -> None:
    queue = next(each for each in shared(fairSharing={"weight": "2"}).queues if each.name == "clusterqueue/a")
    assert (queue.order, queue.accounts) == ("usage", (("default/l", 2.0),))
    assert queue.usage is not None
    assert (queue.usage.half_life_s, queue.usage.entry_s) == (3600.0, 300.0)
    assert dict(queue.usage.billing) == {"cpu": 0.0, "gpu": 100.0}
